"""`ls`: lists the cassettes of a library, one a row."""

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
from llm_proxy.cli.library.cassettes import checked_library_folder
from llm_proxy.cli.library.filters import CassetteFilters, filter_options
from llm_proxy.cli.library.rows import CassetteRow, read_rows
from llm_proxy.cli.options import CONFIG_OPTION, cassettes_option
from llm_proxy.cli.output.json_documents import cassette_error_document
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
from llm_proxy.shell.library.library import Library, walk_cassettes

_COLUMNS: Final = (
    TableColumn("cassette"),
    TableColumn("dialect", drop_priority=7),
    TableColumn("model", drop_priority=5),
    TableColumn("session", drop_priority=2),
    TableColumn("status", is_right_aligned=True),
    TableColumn("outcome"),
    TableColumn("messages", is_right_aligned=True, drop_priority=6),
    TableColumn("size", is_right_aligned=True, drop_priority=1),
    TableColumn("duration", is_right_aligned=True),
    TableColumn("age", is_right_aligned=True, drop_priority=3),
    TableColumn("recorded", drop_priority=4),
)
_SESSION_COLUMN_INDEX: Final = 3
"""Index of the column that is left out where all sessions are the default one."""
_SORT_KEYS: Final[Mapping[str, Callable[[CassetteRow], Any]]] = MappingProxyType(
    {
        "name": lambda row: _name_sort_key(row.relative_path),
        "recorded": lambda row: -(row.age or timedelta.max),
        "size": lambda row: row.file_size_bytes,
        "duration": lambda row: row.response_end.at_ms,
        "model": lambda row: row.meta.model.lower(),
    }
)
"""Sort keys by the name of `--sort`; rows with the same key stay in the order of their names."""
_TAKE_FILE_NAME: Final = re.compile(r"(.*-)([0-9]{1,9})\.jsonl")


def _name_sort_key(name: str) -> tuple[list[str], int]:
    """Sort key of a name: folder by folder, and takes by number."""
    match = _TAKE_FILE_NAME.fullmatch(name)
    return (name.split("/"), 0) if match is None else (match[1].split("/"), int(match[2]))


@click.command
@cassettes_option
@CONFIG_OPTION
@filter_options
@click.option("--sort", type=click.Choice(list(_SORT_KEYS)), default="name", show_default=True,
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
    library = Library(checked_library_folder(cassettes))
    all_rows, errors = read_rows(library, walk_cassettes(library.root), datetime.now(UTC))
    rows = list(filter(CassetteFilters(**chosen).matches, all_rows))
    if duplicates:
        rows = [row for same in groups.duplicate_groups(rows) for row in same]
    rows.sort(key=_SORT_KEYS["name"])
    rows.sort(key=_SORT_KEYS[sort], reverse=reverse)
    if as_json:
        print_json(_ls_document(library, rows, errors))
    else:
        _print_rows(library, rows, len(all_rows), errors)
    raise click.exceptions.Exit(1 if errors else 0)


def _print_rows(
    library: Library, rows: list[CassetteRow], readable_count: int, errors: list[CassetteError]
) -> None:
    if rows:
        has_named_sessions = any(row.meta.session != DEFAULT_SESSION for row in rows)
        kept_indexes = [
            i for i in range(len(_COLUMNS)) if has_named_sessions or i != _SESSION_COLUMN_INDEX
        ]
        cells = [_row_cells(row) for row in rows]
        print_table(
            [_COLUMNS[i] for i in kept_indexes],
            [tuple(row[i] for i in kept_indexes) for row in cells],
        )
    print_lines((StyledText(f"unreadable: {error}", "bad"),) for error in errors)
    print_note(_summary_line(library, rows, readable_count, len(errors)))


def _row_cells(row: CassetteRow) -> Line:
    meta = row.meta
    return (
        StyledText(row.relative_path),
        StyledText(meta.dialect),
        StyledText(meta.model or "-"),
        StyledText("" if meta.session == DEFAULT_SESSION else meta.session),
        StyledText(
            str(row.http_status), "" if row.http_status < HTTPStatus.BAD_REQUEST else "doubtful"
        ),
        styled_outcome(row.outcome),
        StyledText(str(row.message_count)),
        StyledText(display.format_size(row.file_size_bytes)),
        StyledText(display.format_duration(row.response_end.at_ms)),
        StyledText("-" if row.age is None else ages.format_age(row.age)),
        StyledText(meta.recorded_at[:19].replace("T", " ")),
    )


def _summary_line(
    library: Library, rows: list[CassetteRow], readable_count: int, unreadable_count: int
) -> str:
    if not readable_count and not unreadable_count:
        return (
            f"{library.root} holds no cassettes yet. Record some: llm-proxy record -- COMMAND, "
            "where COMMAND is your program; or see llm-proxy demo."
        )
    partial = sum(not row.outcome.is_complete for row in rows)
    parts = [
        display.count_with_noun(len(rows), "cassette")
        + (f" of {readable_count}" if len(rows) != readable_count else ""),
        *([f"{partial} partial"] if partial else []),
        *([f"{unreadable_count} unreadable"] if unreadable_count else []),
        display.format_size(sum(row.file_size_bytes for row in rows)),
    ]
    return ", ".join(parts)


def _ls_document(
    library: Library, rows: list[CassetteRow], errors: list[CassetteError]
) -> dict[str, Any]:
    return {
        "library": display.path_as_unicode_text(library.root),
        "cassettes": [row.to_document() for row in rows],
        "unreadable": [cassette_error_document(error) for error in errors],
    }
