"""`ls`: the cassettes of a library, one a row."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import click

from llm_proxy import ages, display
from llm_proxy.cassette.model import DEFAULT_SESSION
from llm_proxy.cli.library import groups
from llm_proxy.cli.library.cassettes import existing_folder
from llm_proxy.cli.library.filters import CassetteFilters, filter_options
from llm_proxy.cli.library.rows import CassetteRow, read_rows
from llm_proxy.cli.options import CONFIG, cassettes
from llm_proxy.cli.output.json_documents import refusal_document
from llm_proxy.cli.output.printing import (
    Line,
    StyledText,
    print_json,
    print_lines,
    print_note,
    styled_outcome,
)
from llm_proxy.cli.output.tables import TableColumn, print_table
from llm_proxy.errors import CassetteError
from llm_proxy.shell.library.library import Library, cassette_files

_HEADS: Final = (
    TableColumn("cassette"),
    TableColumn("dialect", spare=7),
    TableColumn("model", spare=5),
    TableColumn("session", spare=2),
    TableColumn("status", right=True),
    TableColumn("outcome"),
    TableColumn("messages", right=True, spare=6),
    TableColumn("size", right=True, spare=1),
    TableColumn("duration", right=True),
    TableColumn("age", right=True, spare=3),
    TableColumn("recorded", spare=4),
)
_SESSION: Final = 3
"""The column that a library without named sessions does without."""
_ORDERS: Final[Mapping[str, Callable[[CassetteRow], Any]]] = MappingProxyType(
    {
        "name": lambda row: _name_sort_key(row.name),
        "recorded": lambda row: -(row.age or timedelta.max),
        "size": lambda row: row.size,
        "duration": lambda row: row.end.at_ms,
        "model": lambda row: row.meta.model.lower(),
    }
)
"""What rows can be sorted by; rows that are the same in it stay in the order of their names."""
_TAKE: Final = re.compile(r"(.*-)([0-9]{1,9})\.jsonl")


def _name_sort_key(name: str) -> tuple[list[str], int]:
    """What names are sorted by: folder by folder, and takes by their numbers."""
    found = _TAKE.fullmatch(name)
    return (name.split("/"), 0) if found is None else (found[1].split("/"), int(found[2]))


@click.command
@cassettes
@CONFIG
@filter_options
@click.option("--sort", type=click.Choice(list(_ORDERS)), default="name", show_default=True,
              help="What the rows are sorted by, the least or the oldest first.")  # fmt: skip
@click.option("--duplicates", is_flag=True,
              help="Only those of the same request with the same answer as another.")  # fmt: skip
@click.option("--reverse", is_flag=True, help="The greatest or the latest first.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def ls(
    cassettes: Path, *, sort: str, reverse: bool, as_json: bool, duplicates: bool, **chosen: Any
) -> None:
    r"""List the cassettes of a library, one a row.

    Every file is read in full and judged: what is complete is replayed, what is partial only
    with --allow-partial. A file that cannot be trusted is listed with the reason, and makes the
    exit code 1. Sizes are those of files.

    \b
    Examples:
      llm-proxy ls
      llm-proxy ls --partial
      llm-proxy ls --sort size --reverse
      llm-proxy ls --older-than 90d --status 4xx
      llm-proxy ls --cassettes tests/cassettes --model gpt-5
      llm-proxy ls --json | jq '.cassettes[] | select(.status >= 400) | .file'
    """
    library = Library(existing_folder(cassettes))
    every, refused = read_rows(library, cassette_files(library.root), datetime.now(UTC))
    rows = list(filter(CassetteFilters(**chosen).admits, every))
    if duplicates:
        rows = [row for same in groups.duplicate_groups(rows) for row in same]
    rows.sort(key=_ORDERS["name"])
    rows.sort(key=_ORDERS[sort], reverse=reverse)
    if as_json:
        print_json(_ls_document(library, rows, refused))
    else:
        _print_rows(library, rows, len(every), refused)
    raise click.exceptions.Exit(1 if refused else 0)


def _print_rows(
    library: Library, rows: list[CassetteRow], read: int, refused: list[CassetteError]
) -> None:
    if rows:
        named = any(row.meta.session != DEFAULT_SESSION for row in rows)
        keep = [i for i in range(len(_HEADS)) if named or i != _SESSION]
        cells = [_row_cells(row) for row in rows]
        print_table([_HEADS[i] for i in keep], [tuple(row[i] for i in keep) for row in cells])
    print_lines((StyledText(f"unreadable: {error}", "bad"),) for error in refused)
    print_note(_summary_line(library, rows, read, len(refused)))


def _row_cells(row: CassetteRow) -> Line:
    meta = row.meta
    return (
        StyledText(row.name),
        StyledText(meta.dialect),
        StyledText(meta.model or "-"),
        StyledText("" if meta.session == DEFAULT_SESSION else meta.session),
        StyledText(str(row.status), "" if row.status < HTTPStatus.BAD_REQUEST else "doubtful"),
        styled_outcome(row.outcome),
        StyledText(str(row.messages)),
        StyledText(display.format_size(row.size)),
        StyledText(display.format_duration(row.end.at_ms)),
        StyledText("-" if row.age is None else ages.format_days(row.age)),
        StyledText(meta.recorded[:19].replace("T", " ")),
    )


def _summary_line(library: Library, rows: list[CassetteRow], read: int, refused: int) -> str:
    if not read and not refused:
        return (
            f"{library.root} holds no cassettes yet. Record some: llm-proxy record -- COMMAND, "
            "where COMMAND is your program; or see llm-proxy demo."
        )
    partial = sum(not row.outcome.complete for row in rows)
    parts = [
        display.count_noun(len(rows), "cassette") + (f" of {read}" if len(rows) != read else ""),
        *([f"{partial} partial"] if partial else []),
        *([f"{refused} unreadable"] if refused else []),
        display.format_size(sum(row.size for row in rows)),
    ]
    return ", ".join(parts)


def _ls_document(
    library: Library, rows: list[CassetteRow], refused: list[CassetteError]
) -> dict[str, Any]:
    return {
        "library": display.escape_path(library.root),
        "cassettes": [row.to_document() for row in rows],
        "unreadable": [refusal_document(error) for error in refused],
    }
