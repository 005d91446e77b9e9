"""`prune`: deletes cassettes that are no longer needed."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click

from llm_proxy import ages, display
from llm_proxy.cli.journals import journal_cassette_names
from llm_proxy.cli.library.filters import CassetteFilters, filter_options
from llm_proxy.cli.library.groups import group_takes
from llm_proxy.cli.library.rows import CassetteRow, read_rows
from llm_proxy.cli.option_types import CheckedTextType
from llm_proxy.cli.options import CONFIG_OPTION, cassettes_option
from llm_proxy.cli.options.declaration import PATH_TYPE
from llm_proxy.cli.output.printing import print_json, print_lines, print_note, styled_line
from llm_proxy.errors import LlmProxyError, UsageError
from llm_proxy.shell.library import last_played
from llm_proxy.shell.library.folders import locked_folder
from llm_proxy.shell.library.library import Library, parse_take_path, walk_cassettes
from llm_proxy.shell.running.settings import state_folder

_NO_FILTER_MESSAGE: Final = (
    "prune needs to know what may go: give --older-than 90d, --unused-since 30d, --journal RUN.json"
    ", --partial, or another filter"
)


@dataclass(frozen=True, slots=True)
class PruneSelection:
    """The cassettes to delete."""

    to_delete: Sequence[CassetteRow]
    kept_count: int
    """How many match the filters too, but are kept because another take does not match."""

    @property
    def total_file_size_bytes(self) -> int:
        """Total size of the files to delete, in bytes."""
        return sum(row.file_size_bytes for row in self.to_delete)


@click.command
@cassettes_option
@CONFIG_OPTION
@filter_options
@click.option("--unused-since", metavar="AGE", type=CheckedTextType("age", ages.parse_age),
              help="Only what was not played for so long: 36h, 90d, 12w.")  # fmt: skip
@click.option("--journal", "journals", multiple=True, type=PATH_TYPE, metavar="FILE",
              help="Only what the run of this --journal did not use. Repeatable.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Delete nothing, and say what would be.")
@click.option("--yes", is_flag=True, help="Delete without asking.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def prune(cassettes: Path, *, dry_run: bool, yes: bool, as_json: bool, **fields: Any) -> None:
    r"""Delete cassettes that nobody needs any more.

    What is deleted meets all that is asked for. Takes of one request and session go together or
    not at all: without the first of them, the others would answer in its place. Without --yes
    nothing is deleted before you have said so.

    \b
    Examples:
      llm-proxy prune --unused-since 30d --dry-run
      llm-proxy prune --older-than 1y --yes
      llm-proxy prune --journal unit.json --journal e2e.json
      llm-proxy prune --partial --model gpt-4 --yes --json

    When a cassette was last played on this machine is remembered at the end of each replay and
    auto run, below XDG_STATE_HOME.
    """
    unused_since: str | None = fields.pop("unused_since")
    journals: tuple[Path, ...] = fields.pop("journals")
    filters = CassetteFilters(**fields)
    if filters == CassetteFilters() and unused_since is None and not journals:
        raise UsageError(_NO_FILTER_MESSAGE)
    library = Library(cassettes)
    library.refresh()
    now = datetime.now(UTC)
    all_rows, errors = read_rows(library, walk_cassettes(library.root), now)
    used_names = _names_used_by_journals(library.root, journals, all_rows)
    is_unplayed = _build_unplayed_filter(library.root, unused_since, now)
    selection = _select_prunable(
        library,
        all_rows,
        [
            row
            for row in all_rows
            if filters.matches(row)
            and _cassette_name_in_journal(row) not in used_names
            and is_unplayed(row)
        ],
    )
    is_deleting = (
        bool(selection.to_delete)
        and not dry_run
        and (yes or _confirm_deletion(selection, as_json=as_json))
    )
    deleted = _delete_unchanged_cassettes(library, selection.to_delete) if is_deleting else []
    if as_json:
        print_json(_prune_document(library, selection, deleted, is_deleting=is_deleting))
        return
    print_lines(
        styled_line(row.relative_path) for row in (deleted if is_deleting else selection.to_delete)
    )
    print_note(
        _summary_line(
            library, selection, deleted, is_deleting=is_deleting, unreadable_count=len(errors)
        )
    )


def _cassette_name_in_journal(row: CassetteRow) -> str:
    return display.path_as_unicode_text(row.relative_path)


def _names_used_by_journals(
    root: Path, journals: Sequence[Path], all_rows: Sequence[CassetteRow]
) -> frozenset[str]:
    """The names of the cassettes that the runs of these journals played or recorded.

    Raises `UsageError` for a journal that names only other cassettes, and if no journal names
    any: all would be deleted.
    """
    names = {_cassette_name_in_journal(row) for row in all_rows}
    used: set[str] = set()
    for path in journals:
        cassette_names = journal_cassette_names(path)
        if names and cassette_names and names.isdisjoint(cassette_names):
            raise UsageError(
                f"{display.path_as_unicode_text(path)} tells of no cassette of {root}: its run "
                "used "
                "another "
                "library, or names from before a rekey; nothing was deleted"
            )
        used.update(cassette_names)
    if journals and names and not used:
        raise UsageError(
            f"no run of --journal used any cassette of {root}: all of them would go; give a "
            "journal of a run that plays what you need"
        )
    return frozenset(used)


def _select_prunable(
    library: Library, all_rows: Sequence[CassetteRow], matching_rows: Sequence[CassetteRow]
) -> PruneSelection:
    names = {row.relative_path for row in matching_rows}
    to_delete: list[CassetteRow] = []
    for takes in group_takes(library, all_rows):
        if _has_all_takes(library, takes) and all(row.relative_path in names for row in takes):
            to_delete += takes
    return PruneSelection(to_delete, len(matching_rows) - len(to_delete))


def _has_all_takes(library: Library, takes: Sequence[CassetteRow]) -> bool:
    """Whether no take is missing from a group: an unreadable take keeps the others."""
    first = parse_take_path(library.root, takes[0].path)
    return first is None or len(takes) == len(library.take_paths(first.session, first.key_prefix))


class _UnplayedFilter:
    """Predicate: whether a cassette was not played since `cutoff`; True for all if that is None."""

    def __init__(self, play_times: last_played.LastPlayed, cutoff: datetime | None) -> None:
        self._last_played = play_times
        self._cutoff = cutoff

    def __call__(self, row: CassetteRow) -> bool:
        """Whether a cassette was recorded before the cutoff, and not played since."""
        if self._cutoff is None:
            return True
        last_played_at = self._last_played.played_at_by_path.get(_cassette_name_in_journal(row))
        recorded_at = datetime.now(UTC) - row.age if row.age is not None else None
        return (last_played_at is None or last_played_at < self._cutoff) and (
            recorded_at is not None and recorded_at < self._cutoff
        )


def _build_unplayed_filter(root: Path, age_text: str | None, now: datetime) -> _UnplayedFilter:
    """The filter for `--unused-since`.

    Raises `UsageError` where play times have not been stored for that long.
    """
    if age_text is None:
        return _UnplayedFilter(last_played.LastPlayed(), None)
    cutoff = now - ages.parse_age(age_text)
    play_times = last_played.read_last_played(state_folder(os.environ), root)
    if play_times.tracked_since is None or play_times.tracked_since > cutoff:
        noted = (
            f"it was never noted on this machine what is played of {root}"
            if play_times.tracked_since is None
            else f"what is played of {root} is noted on this machine only since "
            f"{play_times.tracked_since:%Y-%m-%d %H:%M} UTC"
        )
        raise UsageError(
            f"--unused-since {age_text}: {noted}, so nobody knows; wait, or give "
            "--journal FILE of runs that play all that you need"
        )
    return _UnplayedFilter(play_times, cutoff)


def _confirm_deletion(selection: PruneSelection, *, as_json: bool) -> bool:
    if as_json or not sys.stdin.isatty():
        return False
    print_lines(styled_line(row.relative_path) for row in selection.to_delete)
    label = (
        f"{display.count_with_noun(len(selection.to_delete), 'cassette')}, "
        f"{display.format_size(selection.total_file_size_bytes)}"
    )
    return click.confirm(f"Delete {label}?", err=True)


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
            _delete_empty_folders(folder, library.root)
    except OSError as error:
        raise UsageError(
            f"{library.root} cannot be written: {error.strerror}; {len(deleted)} were deleted"
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


def _delete_empty_folders(folder: Path, root: Path) -> None:
    while folder != root:
        try:
            folder.rmdir()
        except OSError:
            return
        folder = folder.parent


def _summary_line(
    library: Library,
    selection: PruneSelection,
    deleted: Sequence[CassetteRow],
    *,
    is_deleting: bool,
    unreadable_count: int,
) -> str:
    rows = deleted if is_deleting else selection.to_delete
    size = display.format_size(sum(row.file_size_bytes for row in rows))
    verb = "deleted" if is_deleting else "would be deleted"
    parts = [f"{display.count_with_noun(len(rows), 'cassette')} of {library.root} {verb}, {size}"]
    if selection.kept_count:
        parts.append(f"{selection.kept_count} kept with other takes of their requests")
    if unreadable_count:
        parts.append(f"{unreadable_count} cannot be read and stay: llm-proxy verify")
    if rows and not is_deleting:
        parts.append("give --yes to delete them")
    return "; ".join(parts)


def _prune_document(
    library: Library,
    selection: PruneSelection,
    deleted: Sequence[CassetteRow],
    *,
    is_deleting: bool,
) -> dict[str, Any]:
    rows = deleted if is_deleting else selection.to_delete
    return {
        "library": display.path_as_unicode_text(library.root),
        "deleted": is_deleting,
        "cassettes": [row.to_document() for row in rows],
        "file_bytes": sum(row.file_size_bytes for row in rows),
        "kept_with_other_takes": selection.kept_count,
    }
