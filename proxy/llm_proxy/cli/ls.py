"""`ls`: lists the cassettes of a library."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from http import HTTPStatus
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import click

from llm_proxy import ages, display
from llm_proxy.cassette.model import DEFAULT_SESSION
from llm_proxy.cli.commands import GroupedCommand
from llm_proxy.cli.json_documents import cassette_error_document
from llm_proxy.cli.library import (
    CassetteFilters,
    CassetteRow,
    checked_library_folder,
    duplicate_groups,
    filter_options,
    read_rows,
    total_file_size_bytes,
)
from llm_proxy.cli.options import CONFIG_OPTION, cassettes_option, json_option
from llm_proxy.cli.output import (
    StyledText,
    TableColumn,
    print_json,
    print_lines,
    print_note,
    print_table,
    styled_outcome,
)
from llm_proxy.shell.library.library import Library

_COLUMNS: Final = (
    TableColumn("cassette"),
    TableColumn("dialect", drop_priority=7),
    TableColumn("model", drop_priority=5),
    TableColumn("session", drop_priority=2),
    TableColumn("status", is_right_aligned=True),
    TableColumn("outcome"),
    TableColumn("redaction", drop_priority=2),
    TableColumn("messages", is_right_aligned=True, drop_priority=6),
    TableColumn("size", is_right_aligned=True, drop_priority=1),
    TableColumn("duration", is_right_aligned=True),
    TableColumn("age", is_right_aligned=True, drop_priority=3),
    TableColumn("recorded (UTC)", drop_priority=4),
)
_SESSION_COLUMN_INDEX: Final = 3
"""Index of the column that is left out where all sessions are the default one."""
_REDACTION_COLUMN_INDEX: Final = 6
"""Index of the column that is left out where the rules of this version redacted all cassettes."""
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


@click.command(cls=GroupedCommand)
@cassettes_option
@CONFIG_OPTION
@filter_options
@click.option("--sort", type=click.Choice(list(_SORT_KEYS)), default="name", show_default=True,
              help="Sort by this property, smallest or oldest first.")  # fmt: skip
@click.option("--duplicates", is_flag=True,
              help="Only duplicates: cassettes with the same request and response.")  # fmt: skip
@click.option("--reverse", is_flag=True, help="Reverse the sort order.")
@json_option
def ls(
    cassettes: Path, *, sort: str, reverse: bool, as_json: bool, duplicates: bool, **chosen: Any
) -> None:
    r"""List the cassettes of a library.

    The outcome of a cassette is complete or partial. Partial cassettes are replayed only with
    --allow-partial. If a file cannot be read, the output shows the reason, and the exit code is 1.
    The size is the size of the cassette file.

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
    all_rows, errors = read_rows(library)
    rows = list(filter(CassetteFilters(**chosen).matches, all_rows))
    if duplicates:
        rows = [row for same in duplicate_groups(rows) for row in same]
    rows.sort(key=_SORT_KEYS["name"])
    rows.sort(key=_SORT_KEYS[sort], reverse=reverse)
    if as_json:
        document = {
            "library": library.root,
            "cassettes": [row.to_document() for row in rows],
            "unreadable": [cassette_error_document(error) for error in errors],
        }
        print_json(document)
    else:
        if rows:
            left_out: set[int] = set()
            if all(row.meta.session == DEFAULT_SESSION for row in rows):
                left_out.add(_SESSION_COLUMN_INDEX)
            if not any(row.has_older_redaction for row in rows):
                left_out.add(_REDACTION_COLUMN_INDEX)
            kept_indexes = [i for i in range(len(_COLUMNS)) if i not in left_out]
            cells = map(_row_cells, rows)
            print_table(
                [_COLUMNS[i] for i in kept_indexes],
                [[row[i] for i in kept_indexes] for row in cells],
            )
        print_lines(StyledText(f"unreadable: {error}", "bad") for error in errors)
        print_note(_summary_line(library, rows, len(all_rows), len(errors)))
    raise click.exceptions.Exit(1 if errors else 0)


def _row_cells(row: CassetteRow) -> tuple[str, ...]:
    meta = row.meta
    return (
        row.relative_path,
        meta.dialect,
        meta.model or "-",
        "" if meta.session == DEFAULT_SESSION else meta.session,
        StyledText(
            str(row.http_status), "" if row.http_status < HTTPStatus.BAD_REQUEST else "doubtful"
        ),
        styled_outcome(row.outcome),
        StyledText("older rules", "doubtful") if row.has_older_redaction else "",
        f"{row.message_count:,}",
        display.format_size(row.file_size_bytes),
        display.format_duration(row.response_end.at_ms),
        "-" if row.age is None else ages.format_age(row.age),
        meta.recorded_at[:19].replace("T", " "),
    )


def _summary_line(
    library: Library, rows: list[CassetteRow], readable_count: int, unreadable_count: int
) -> str:
    if not readable_count and not unreadable_count:
        return (
            f"no cassettes in {display.folder_name(library.root)}; record some with "
            "llm-proxy record -- COMMAND, or try llm-proxy demo"
        )
    partial_count = sum(not row.outcome.is_complete for row in rows)
    parts = [display.count_with_noun(readable_count, "cassette")]
    if len(rows) != readable_count:
        parts[0] = f"{len(rows):,} of {parts[0]}"
    if partial_count:
        parts.append(f"{partial_count:,} partial")
    if older_count := sum(row.has_older_redaction for row in rows):
        parts.append(f"{older_count:,} redacted by older rules")
    if unreadable_count:
        parts.append(f"{unreadable_count:,} unreadable")
    return ", ".join([*parts, display.format_size(total_file_size_bytes(rows))])
