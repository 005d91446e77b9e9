"""`prune`: cassettes that nobody needs any more."""

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
from llm_proxy.cli.journals import journal_cassettes
from llm_proxy.cli.library.filters import CassetteFilters, filter_options
from llm_proxy.cli.library.groups import group_takes
from llm_proxy.cli.library.rows import CassetteRow, read_rows
from llm_proxy.cli.option_types import CheckedTextType
from llm_proxy.cli.options import CONFIG, cassettes
from llm_proxy.cli.options.declaration import FOLDER
from llm_proxy.cli.output.printing import print_json, print_lines, print_note, styled_line
from llm_proxy.errors import LlmProxyError, UsageError
from llm_proxy.shell.library import last_played
from llm_proxy.shell.library.folder_lock import exclusive_access
from llm_proxy.shell.library.library import Library, cassette_files, take_of_name
from llm_proxy.shell.running.settings import state_folder

_NOTHING: Final = (
    "prune needs to know what may go: give --older-than 90d, --unused-since 30d, --journal RUN.json"
    ", --partial, or another filter"
)


@dataclass(frozen=True, slots=True)
class PruneSelection:
    """What may go."""

    to_delete: Sequence[CassetteRow]
    to_keep: int
    """Cassettes that are meant too, but belong to takes that are not."""

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(row.size for row in self.to_delete)


@click.command
@cassettes
@CONFIG
@filter_options
@click.option("--unused-since", metavar="AGE", type=CheckedTextType("age", ages.parse_age),
              help="Only what was not played for so long: 36h, 90d, 12w.")  # fmt: skip
@click.option("--journal", "journals", multiple=True, type=FOLDER, metavar="FILE",
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
    wanted = CassetteFilters(**fields)
    if wanted == CassetteFilters() and unused_since is None and not journals:
        raise UsageError(_NOTHING)
    library = Library(cassettes)
    library.refresh()
    now = datetime.now(UTC)
    every, refused = read_rows(library, cassette_files(library.root), now)
    used = _used_names(library.root, journals, every)
    unplayed = _unplayed_filter(library.root, unused_since, now)
    found = _select(
        library,
        every,
        [
            row
            for row in every
            if wanted.admits(row) and _journal_name(row) not in used and unplayed(row)
        ],
    )
    going = bool(found.to_delete) and not dry_run and (yes or _confirm(found, as_json=as_json))
    gone = _delete_rows(library, found.to_delete) if going else []
    if as_json:
        print_json(_prune_document(library, found, gone, going=going))
        return
    print_lines(styled_line(row.name) for row in (gone if going else found.to_delete))
    print_note(_summary_line(library, found, gone, going=going, unreadable=len(refused)))


def _journal_name(row: CassetteRow) -> str:
    return display.escape_path(row.name)


def _used_names(
    root: Path, journals: Sequence[Path], every: Sequence[CassetteRow]
) -> frozenset[str]:
    """What the runs of these journals used.

    Raises `UsageError` where one tells of none of these cassettes: it would let all of them go.
    """
    names = {_journal_name(row) for row in every}
    used: set[str] = set()
    for path in journals:
        items = journal_cassettes(path)
        if names and items and names.isdisjoint(items):
            raise UsageError(
                f"{display.escape_path(path)} tells of no cassette of {root}: its run used another "
                "library, or names from before a rekey; nothing was deleted"
            )
        used.update(items)
    if journals and names and not used:
        raise UsageError(
            f"no run of --journal used any cassette of {root}: all of them would go; give a "
            "journal of a run that plays what you need"
        )
    return frozenset(used)


def _select(
    library: Library, every: Sequence[CassetteRow], meant: Sequence[CassetteRow]
) -> PruneSelection:
    names = {row.name for row in meant}
    go: list[CassetteRow] = []
    for takes in group_takes(library, every):
        if _has_all_takes(library, takes) and all(row.name in names for row in takes):
            go += takes
    return PruneSelection(go, len(meant) - len(go))


def _has_all_takes(library: Library, takes: Sequence[CassetteRow]) -> bool:
    """Whether these are all: a take that cannot be read keeps the others."""
    first = take_of_name(library.root, takes[0].path)
    return first is None or len(takes) == len(library.numbers(first.session, first.key_prefix))


class _UnplayedFilter:
    """Tells what was not played since a moment."""

    def __init__(self, known: last_played.LastPlayed, before: datetime | None) -> None:
        self._last_played = known
        self._cutoff = before

    def __call__(self, row: CassetteRow) -> bool:
        """Whether a cassette is older than that moment, and was not played since."""
        if self._cutoff is None:
            return True
        then = self._last_played.played.get(_journal_name(row))
        recorded = datetime.now(UTC) - row.age if row.age is not None else None
        return (then is None or then < self._cutoff) and (
            recorded is not None and recorded < self._cutoff
        )


def _unplayed_filter(root: Path, span: str | None, now: datetime) -> _UnplayedFilter:
    """Raises `UsageError` where it is not known for so long what was played."""
    if span is None:
        return _UnplayedFilter(last_played.LastPlayed(), None)
    before = now - ages.parse_age(span)
    known = last_played.read_last_played(state_folder(os.environ), root)
    if known.since is None or known.since > before:
        noted = (
            f"it was never noted on this machine what is played of {root}"
            if known.since is None
            else f"what is played of {root} is noted on this machine only since "
            f"{known.since:%Y-%m-%d %H:%M} UTC"
        )
        raise UsageError(
            f"--unused-since {span}: {noted}, so nobody knows; wait, or give "
            "--journal FILE of runs that play all that you need"
        )
    return _UnplayedFilter(known, before)


def _confirm(found: PruneSelection, *, as_json: bool) -> bool:
    if as_json or not sys.stdin.isatty():
        return False
    print_lines(styled_line(row.name) for row in found.to_delete)
    label = (
        f"{display.count_noun(len(found.to_delete), 'cassette')}, {display.format_size(found.size)}"
    )
    return click.confirm(f"Delete {label}?", err=True)


def _delete_rows(library: Library, rows: Sequence[CassetteRow]) -> list[CassetteRow]:
    """Those that were deleted; takes of which one was recorded meanwhile stay.

    Raises `UsageError` where the library cannot be written.
    """
    gone: list[CassetteRow] = []
    try:
        with exclusive_access(library.root):
            library.refresh()
            for takes in group_takes(library, rows):
                if _has_all_takes(library, takes) and all(
                    _is_unchanged(library, take) for take in takes
                ):
                    for row in takes:
                        row.path.unlink(missing_ok=True)
                        gone.append(row)
        for folder in sorted({row.path.parent for row in gone}, reverse=True):
            _delete_empty_folders(folder, library.root)
    except OSError as error:
        raise UsageError(
            f"{library.root} cannot be written: {error.strerror}; {len(gone)} were deleted"
        ) from None
    with suppress(LlmProxyError):  # what is no more is not asked for
        last_played.forget_files(state_folder(os.environ), library.root, [row.name for row in gone])
    return gone


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
    found: PruneSelection,
    gone: Sequence[CassetteRow],
    *,
    going: bool,
    unreadable: int,
) -> str:
    rows = gone if going else found.to_delete
    size = display.format_size(sum(row.size for row in rows))
    verb = "deleted" if going else "would be deleted"
    parts = [f"{display.count_noun(len(rows), 'cassette')} of {library.root} {verb}, {size}"]
    if found.to_keep:
        parts.append(f"{found.to_keep} kept with other takes of their requests")
    if unreadable:
        parts.append(f"{unreadable} cannot be read and stay: llm-proxy verify")
    if rows and not going:
        parts.append("give --yes to delete them")
    return "; ".join(parts)


def _prune_document(
    library: Library, found: PruneSelection, gone: Sequence[CassetteRow], *, going: bool
) -> dict[str, Any]:
    rows = gone if going else found.to_delete
    return {
        "library": display.escape_path(library.root),
        "deleted": going,
        "cassettes": [row.to_document() for row in rows],
        "file_bytes": sum(row.size for row in rows),
        "kept_with_other_takes": found.to_keep,
    }
