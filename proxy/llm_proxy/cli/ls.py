"""`ls`: the cassettes of a library, one a row."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import click

from llm_proxy import display
from llm_proxy.cassette import Cassette, End, Meta
from llm_proxy.cassette.model import DEFAULT_SESSION
from llm_proxy.cli.options import CONFIG, cassettes
from llm_proxy.cli.output.json_documents import meta_document, outcome_document, refusal_document
from llm_proxy.cli.output.printing import (
    Line,
    Span,
    outcome_span,
    print_json,
    print_lines,
    print_note,
)
from llm_proxy.cli.output.tables import Column, print_table
from llm_proxy.cli.reading import name_within, read_all
from llm_proxy.errors import CassetteError
from llm_proxy.exchange import Outcome
from llm_proxy.outcomes import outcome
from llm_proxy.shell.library.library import Library, files_below

_HEADS: Final = (
    Column("cassette"),
    Column("dialect", spare=6),
    Column("model", spare=5),
    Column("session", spare=2),
    Column("status", right=True),
    Column("outcome"),
    Column("messages", right=True, spare=3),
    Column("bytes", right=True, spare=1),
    Column("duration", right=True),
    Column("recorded", spare=4),
)
_SESSION: Final = 3
"""The column that a library without named sessions does without."""


@dataclass(frozen=True, slots=True)
class Row:
    """What is listed of a cassette, without its body."""

    name: str
    """Its path within the library."""
    file: str
    meta: Meta
    status: int
    outcome: Outcome
    messages: int
    reads: int
    end: End

    @classmethod
    def of(cls, name: str, it: Cassette) -> Row:
        """The row of a cassette."""
        return cls(
            name, it.file, it.meta, it.head.status, outcome(it), len(it.messages), len(it.reads),
            it.end,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Filters:
    """Which cassettes are listed; an empty word lets all of them through."""

    partial: bool
    session: str
    model: str

    def admit(self, row: Row) -> bool:
        """Whether this row is listed."""
        meta = row.meta
        return (
            not (self.partial and row.outcome.complete)
            and self.session in {"", meta.session}
            and self.model.lower() in meta.model.lower()
        )


@click.command
@cassettes
@CONFIG
@click.option("--partial", is_flag=True, help="Only takes that are not complete.")
@click.option("--session", default="", metavar="NAME", help="Only takes of this session.")
@click.option("--model", default="", metavar="TEXT", help="Only models with TEXT in their name.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def ls(cassettes: Path, *, as_json: bool, **filters: Any) -> None:
    r"""List the cassettes of a library, one a row.

    Every file is read in full and judged: what is complete is replayed, what is partial only
    with --allow-partial. A file that cannot be trusted is listed with the reason, and makes the
    exit code 1.

    \b
    Examples:
      llm-proxy ls
      llm-proxy ls --partial
      llm-proxy ls --cassettes tests/cassettes --model gpt-5
      llm-proxy ls --json | jq '.cassettes[] | select(.status >= 400) | .file'
    """
    library = Library(cassettes)
    rows, refused = _read(library)
    chosen = [row for row in rows if Filters(**filters).admit(row)]
    if as_json:
        print_json(_document(library, chosen, refused))
    else:
        _print(library, chosen, len(rows), refused)
    raise click.exceptions.Exit(1 if refused else 0)


def _read(library: Library) -> tuple[list[Row], list[CassetteError]]:
    rows: list[Row] = []
    refused: list[CassetteError] = []
    for path, it in read_all(library, list(files_below(library.root))):
        match it:
            case Cassette():
                rows.append(Row.of(name_within(library, path), it))
            case CassetteError():
                refused.append(it)
    return rows, refused


def _print(library: Library, rows: list[Row], read: int, refused: list[CassetteError]) -> None:
    if rows:
        named = any(row.meta.session != DEFAULT_SESSION for row in rows)
        keep = [i for i in range(len(_HEADS)) if named or i != _SESSION]
        cells = [_cells(row) for row in rows]
        print_table([_HEADS[i] for i in keep], [tuple(row[i] for i in keep) for row in cells])
    print_lines((Span(f"unreadable: {error}", "bad"),) for error in refused)
    print_note(_summary(library, rows, read, len(refused)))


def _cells(row: Row) -> Line:
    meta = row.meta
    return (
        Span(row.name),
        Span(meta.dialect),
        Span(meta.model or "-"),
        Span("" if meta.session == DEFAULT_SESSION else meta.session),
        Span(str(row.status), "" if row.status < HTTPStatus.BAD_REQUEST else "doubtful"),
        outcome_span(row.outcome),
        Span(str(row.messages)),
        Span(str(row.end.size)),
        Span(display.duration(row.end.at)),
        Span(meta.recorded[:19].replace("T", " ")),
    )


def _summary(library: Library, rows: list[Row], read: int, refused: int) -> str:
    if not read and not refused:
        return (
            f"{library.root} holds no cassettes yet. Record some: llm-proxy record -- COMMAND, "
            "where COMMAND is your program; or see llm-proxy demo."
        )
    partial = sum(not row.outcome.complete for row in rows)
    size = sum(row.end.size for row in rows)
    parts = [
        display.counted(len(rows), "cassette") + (f" of {read}" if len(rows) != read else ""),
        *([f"{partial} partial"] if partial else []),
        *([f"{refused} unreadable"] if refused else []),
        f"{size:,} bytes of answers",
    ]
    return ", ".join(parts)


def _document(library: Library, rows: list[Row], refused: list[CassetteError]) -> dict[str, Any]:
    return {
        "library": display.path_text(library.root),
        "cassettes": [_entry(row) for row in rows],
        "unreadable": [refusal_document(error) for error in refused],
    }


def _entry(row: Row) -> dict[str, Any]:
    return {
        "file": display.path_text(row.file),
        "name": display.path_text(row.name),
        **meta_document(row.meta),
        "status": row.status,
        "outcome": outcome_document(row.outcome),
        "ending": row.end.ending.value,
        "messages": row.messages,
        "reads": row.reads,
        "bytes": row.end.size,
        "duration_ms": row.end.at,
        "sha256": row.end.sha256,
    }
