"""`prune`: deletes cassettes that are no longer needed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from llm_proxy import ages, display
from llm_proxy.cli.commands import GroupedCommand
from llm_proxy.cli.journals import journal_cassette_names
from llm_proxy.cli.library import (
    CassetteFilters,
    CassetteRow,
    filter_options,
    group_takes,
    read_rows,
    total_file_size_bytes,
)
from llm_proxy.cli.options import (
    CONFIG_OPTION,
    PATH_TYPE,
    CheckedTextType,
    cassettes_option,
    grouped_option,
    json_option,
)
from llm_proxy.cli.output import print_json, print_lines, print_note
from llm_proxy.errors import LlmProxyError, UsageError
from llm_proxy.shell.library import last_played
from llm_proxy.shell.library.library import Library, locked_folder, parse_take_path
from llm_proxy.shell.running.settings import state_folder

_filter_option = grouped_option("Filters")


@click.command(cls=GroupedCommand)
@cassettes_option
@CONFIG_OPTION
@filter_options
@_filter_option("--unused-since", metavar="AGE", type=CheckedTextType("age", ages.parse_age),
              help="Only cassettes not played for this long: 36h, 90d, 12w.")  # fmt: skip
@_filter_option("--journal", "journals", multiple=True, type=PATH_TYPE, metavar="FILE",
              help="Only cassettes not listed in this journal. Repeatable.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="List the cassettes without deleting them.")
@click.option("--yes", is_flag=True, help="Delete without confirmation.")
@json_option
def prune(cassettes: Path, *, dry_run: bool, yes: bool, as_json: bool, **fields: Any) -> None:
    r"""Delete cassettes that are no longer needed.

    The command deletes the cassettes that match all given filters. All takes of a request in a
    session are deleted together, so that the nth request still receives the nth take. Without
    --yes, the command asks for confirmation, or deletes nothing if stdin is not a terminal.

    \b
    Examples:
      llm-proxy prune --unused-since 30d --dry-run
      llm-proxy prune --older-than 1y --yes
      llm-proxy prune --journal unit.json --journal e2e.json
      llm-proxy prune --partial --model gpt-4 --yes --json

    --unused-since uses the time each cassette was last played. The replay and auto commands record
    these times under XDG_STATE_HOME.
    """
    unused_since: str | None = fields.pop("unused_since")
    journals: tuple[Path, ...] = fields.pop("journals")
    filters = CassetteFilters(**fields)
    if filters == CassetteFilters() and unused_since is None and not journals:
        raise UsageError(
            "prune needs a filter; set --older-than 90d, --unused-since 30d, "
            "--journal RUN.json, --partial or another filter"
        )
    library = Library(cassettes)
    library.refresh()
    all_rows, errors = read_rows(library)
    used_names = _names_used_by_journals(library.root, journals, all_rows)
    is_unplayed = _build_unplayed_filter(library.root, unused_since)
    matching_names = {
        row.relative_path
        for row in all_rows
        if filters.matches(row) and _name_in_journal(row) not in used_names and is_unplayed(row)
    }
    to_delete: list[CassetteRow] = []
    for takes in group_takes(library, all_rows):
        if _has_all_takes(library, takes) and matching_names.issuperset(
            row.relative_path for row in takes
        ):
            to_delete += takes
    kept_count = len(matching_names) - len(to_delete)
    is_deleting = (
        bool(to_delete) and not dry_run and (yes or _confirm_deletion(to_delete, as_json=as_json))
    )
    rows = _delete_unchanged_cassettes(library, to_delete) if is_deleting else to_delete
    if as_json:
        document = {
            "library": library.root,
            "deleted": is_deleting,
            "cassettes": [row.to_document() for row in rows],
            "file_bytes": total_file_size_bytes(rows),
            "kept_with_other_takes": kept_count,
        }
        print_json(document)
        return
    print_lines(row.relative_path for row in rows)
    verb = "deleted" if is_deleting or (yes and not dry_run) else "would delete"
    count = display.count_with_noun(len(rows), "cassette")
    size = f", {display.format_size(total_file_size_bytes(rows))}" if rows else ""
    parts = [f"{verb} {count} in {display.folder_name(library.root)}{size}"]
    if kept_count:
        kept = display.count_with_noun(kept_count, "cassette")
        parts.append(f"kept {kept} (other takes of the same requests do not match the filters)")
    if errors:
        unreadable = display.count_with_noun(len(errors), "unreadable file")
        parts.append(f"kept {unreadable} (to see the errors, run llm-proxy verify)")
    if rows and not is_deleting:
        parts.append("add --yes to delete")
    print_note("; ".join(parts))


def _name_in_journal(row: CassetteRow) -> str:
    return display.path_as_unicode_text(row.relative_path)


def _names_used_by_journals(
    root: Path, journals: Sequence[Path], all_rows: Sequence[CassetteRow]
) -> set[str]:
    """The names of the cassettes that the runs of these journals played or recorded.

    Raises `UsageError` for a journal that names only other cassettes, and if no journal names
    any: all would be deleted.
    """
    names = set(map(_name_in_journal, all_rows))
    used: set[str] = set()
    for path in journals:
        cassette_names = journal_cassette_names(path)
        if names and cassette_names and names.isdisjoint(cassette_names):
            raise UsageError(
                f"{display.path_as_unicode_text(path)}: none of the cassettes in this journal "
                f"exists in {display.folder_name(root)}; if llm-proxy rekey renamed the "
                "cassettes, write a new journal"
            )
        used.update(cassette_names)
    if journals and names and not used:
        raise UsageError(
            f"--journal: the journals list no cassettes, so prune would delete all cassettes in "
            f"{display.folder_name(root)}; use the journal of a run that plays "
            "the cassettes you need"
        )
    return used


def _has_all_takes(library: Library, takes: Sequence[CassetteRow]) -> bool:
    """Whether no take is missing from a group: an unreadable take keeps the others."""
    first = parse_take_path(library.root, takes[0].path)
    return first is None or len(takes) == len(library.take_paths(first.session, first.key_prefix))


def _build_unplayed_filter(root: Path, age_text: str | None) -> Callable[[CassetteRow], bool]:
    """The filter for `--unused-since`: recorded before that time, and not played since.

    Raises `UsageError` where play times have not been stored for that long.
    """
    if age_text is None:
        return lambda _row: True
    min_age = ages.parse_age(age_text)
    cutoff = datetime.now(UTC) - min_age
    play_times = last_played.read_last_played(state_folder(os.environ), root)
    if play_times.tracked_since is None or play_times.tracked_since > cutoff:
        folder = display.folder_name(root)
        stored = (
            f"this machine has no record of when the cassettes in {folder} were last replayed"
            if play_times.tracked_since is None
            else f"for {folder}, this machine records replays of cassettes only since "
            f"{play_times.tracked_since:%Y-%m-%d %H:%M} UTC"
        )
        raise UsageError(
            f"--unused-since {age_text}: {stored}; instead, set --journal to the journal of a "
            "run that plays the cassettes you need"
        )

    def is_unplayed(row: CassetteRow) -> bool:
        played_at = play_times.played_at_by_path.get(_name_in_journal(row))
        return (
            (played_at is None or played_at < cutoff) and row.age is not None and row.age > min_age
        )

    return is_unplayed


def _confirm_deletion(rows: Sequence[CassetteRow], *, as_json: bool) -> bool:
    if as_json or not sys.stdin.isatty():
        return False
    print_lines(row.relative_path for row in rows)
    count = display.count_with_noun(len(rows), "cassette")
    size = display.format_size(total_file_size_bytes(rows))
    return click.confirm(f"Delete {count} ({size})?", err=True)


def _delete_unchanged_cassettes(library: Library, rows: Sequence[CassetteRow]) -> list[CassetteRow]:
    """Delete these cassettes; return those that were deleted.

    A group of takes is kept if one of them changed or was added meanwhile.  Raises `UsageError`
    where the library cannot be written.
    """
    deleted: list[CassetteRow] = []
    try:
        with locked_folder(library.root):
            library.refresh()
            for takes in group_takes(library, rows):
                if _has_all_takes(library, takes) and all(
                    _is_unchanged(library, take) for take in takes
                ):
                    for row in takes:
                        row.path.unlink(missing_ok=True)
                        deleted.append(row)
        for folder in sorted({row.path.parent for row in deleted}, reverse=True):
            with suppress(OSError):  # one that is not empty
                for empty in (folder, *folder.parents):
                    if empty == library.root:
                        break
                    empty.rmdir()
    except OSError as error:
        raise UsageError(
            f"cannot write {library.root}: {error.strerror}; "
            f"{display.count_with_noun(len(deleted), 'cassette')} deleted"
        ) from None
    with suppress(LlmProxyError):  # the entry of a deleted file is never looked up
        last_played.forget_files(
            state_folder(os.environ), library.root, [row.relative_path for row in deleted]
        )
    return deleted


def _is_unchanged(library: Library, row: CassetteRow) -> bool:
    try:
        return library.read_meta(row.path) == row.meta
    except LlmProxyError:
        return False
