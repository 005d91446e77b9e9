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
from llm_proxy.cli.journals import library_of
from llm_proxy.cli.library.filters import Filters, filters
from llm_proxy.cli.library.groups import takes_together
from llm_proxy.cli.library.rows import Row, read_rows
from llm_proxy.cli.option_types import Checked
from llm_proxy.cli.options import CONFIG, cassettes
from llm_proxy.cli.options.declaration import FOLDER
from llm_proxy.cli.output.printing import line, print_json, print_lines, print_note
from llm_proxy.errors import LlmProxyError, UsageError
from llm_proxy.shell.library import last_played
from llm_proxy.shell.library.exclusive_access import alone
from llm_proxy.shell.library.library import Library, files_below, named_take
from llm_proxy.shell.running.settings import state_folder

_NOTHING: Final = (
    "prune needs to know what may go: give --older-than 90d, --unused-since 30d, --journal RUN.json"
    ", --partial, or another filter"
)


@dataclass(frozen=True, slots=True)
class Chosen:
    """What may go."""

    go: Sequence[Row]
    stay: int
    """Cassettes that are meant too, but belong to takes that are not."""

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(row.size for row in self.go)


@click.command
@cassettes
@CONFIG
@filters
@click.option("--unused-since", metavar="AGE", type=Checked("age", ages.span_of),
              help="Only what was not played for so long: 36h, 90d, 12w.")  # fmt: skip
@click.option("--journal", "journals", multiple=True, type=FOLDER, metavar="FILE",
              help="Only what the run of this --journal did not use. Repeatable.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Delete nothing, and say what would be.")
@click.option("--yes", is_flag=True, help="Delete without asking.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def prune(cassettes: Path, *, dry_run: bool, yes: bool, as_json: bool, **asked: Any) -> None:
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
    unused_since: str | None = asked.pop("unused_since")
    journals: tuple[Path, ...] = asked.pop("journals")
    wanted = Filters(**asked)
    if wanted == Filters() and unused_since is None and not journals:
        raise UsageError(_NOTHING)
    library = Library(cassettes)
    library.refresh()
    now = datetime.now(UTC)
    every, refused = read_rows(library, files_below(library.root), now)
    used = _used(library.root, journals, every)
    unplayed = _unplayed_since(library.root, unused_since, now)
    found = _choose(
        library,
        every,
        [row for row in every if wanted.admit(row) and _told(row) not in used and unplayed(row)],
    )
    going = bool(found.go) and not dry_run and (yes or _agreed(found, as_json=as_json))
    gone = _delete(library, found.go) if going else []
    if as_json:
        print_json(_document(library, found, gone, going=going))
        return
    print_lines(line(row.name) for row in (gone if going else found.go))
    print_note(_summary(library, found, gone, going=going, unreadable=len(refused)))


def _told(row: Row) -> str:
    """The name of a cassette as journals and the state folder have it."""
    return display.path_text(row.name)


def _used(root: Path, journals: Sequence[Path], every: Sequence[Row]) -> frozenset[str]:
    """What the runs of these journals used.

    Raises `UsageError` where one tells of none of these cassettes: it would let all of them go.
    """
    names = {_told(row) for row in every}
    used: set[str] = set()
    for path in journals:
        told = library_of(path)
        if names and told and names.isdisjoint(told):
            raise UsageError(
                f"{display.path_text(path)} tells of no cassette of {root}: its run used another "
                "library, or names from before a rekey; nothing was deleted"
            )
        used.update(told)
    if journals and names and not used:
        raise UsageError(
            f"no run of --journal used any cassette of {root}: all of them would go; give a "
            "journal of a run that plays what you need"
        )
    return frozenset(used)


def _choose(library: Library, every: Sequence[Row], meant: Sequence[Row]) -> Chosen:
    """Of those that are meant, those whose takes are all meant."""
    names = {row.name for row in meant}
    go: list[Row] = []
    for takes in takes_together(library, every):
        if _is_whole(library, takes) and all(row.name in names for row in takes):
            go += takes
    return Chosen(go, len(meant) - len(go))


def _is_whole(library: Library, takes: Sequence[Row]) -> bool:
    """Whether these are all: a take that cannot be read keeps the others."""
    first = named_take(library.root, takes[0].path)
    return first is None or len(takes) == len(library.numbers(first.session, first.key16))


class _Unplayed:
    """Tells what was not played since a moment."""

    def __init__(self, known: last_played.LastPlayed, before: datetime | None) -> None:
        self._known = known
        self._before = before

    def __call__(self, row: Row) -> bool:
        """Whether a cassette is older than that moment, and was not played since."""
        if self._before is None:
            return True
        then = self._known.played.get(_told(row))
        recorded = datetime.now(UTC) - row.age if row.age is not None else None
        return (then is None or then < self._before) and (
            recorded is not None and recorded < self._before
        )


def _unplayed_since(root: Path, span: str | None, now: datetime) -> _Unplayed:
    """Raises `UsageError` where it is not known for so long what was played."""
    if span is None:
        return _Unplayed(last_played.LastPlayed(), None)
    before = now - ages.span_of(span)
    known = last_played.read(state_folder(os.environ), root)
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
    return _Unplayed(known, before)


def _agreed(found: Chosen, *, as_json: bool) -> bool:
    """Whether somebody is there who says yes."""
    if as_json or not sys.stdin.isatty():
        return False
    print_lines(line(row.name) for row in found.go)
    what = f"{display.counted(len(found.go), 'cassette')}, {display.size(found.size)}"
    return click.confirm(f"Delete {what}?", err=True)


def _delete(library: Library, rows: Sequence[Row]) -> list[Row]:
    """Those that were deleted; takes of which one was recorded meanwhile stay.

    Raises `UsageError` where the library cannot be written.
    """
    gone: list[Row] = []
    try:
        with alone(library.root):
            library.refresh()
            for takes in takes_together(library, rows):
                if _is_whole(library, takes) and all(_is_as_read(library, it) for it in takes):
                    for row in takes:
                        row.path.unlink(missing_ok=True)
                        gone.append(row)
        for folder in sorted({row.path.parent for row in gone}, reverse=True):
            _tidy(folder, library.root)
    except OSError as error:
        raise UsageError(
            f"{library.root} cannot be written: {error.strerror}; {len(gone)} were deleted"
        ) from None
    with suppress(LlmProxyError):  # what is no more is not asked for
        last_played.forget(state_folder(os.environ), library.root, [row.name for row in gone])
    return gone


def _is_as_read(library: Library, row: Row) -> bool:
    try:
        return library.meta(row.path) == row.meta
    except LlmProxyError:
        return False


def _tidy(folder: Path, root: Path) -> None:
    """Delete folders that are empty by now."""
    while folder != root:
        try:
            folder.rmdir()
        except OSError:
            return
        folder = folder.parent


def _summary(
    library: Library, found: Chosen, gone: Sequence[Row], *, going: bool, unreadable: int
) -> str:
    rows = gone if going else found.go
    size = display.size(sum(row.size for row in rows))
    verb = "deleted" if going else "would be deleted"
    parts = [f"{display.counted(len(rows), 'cassette')} of {library.root} {verb}, {size}"]
    if found.stay:
        parts.append(f"{found.stay} kept with other takes of their requests")
    if unreadable:
        parts.append(f"{unreadable} cannot be read and stay: llm-proxy verify")
    if rows and not going:
        parts.append("give --yes to delete them")
    return "; ".join(parts)


def _document(
    library: Library, found: Chosen, gone: Sequence[Row], *, going: bool
) -> dict[str, Any]:
    rows = gone if going else found.go
    return {
        "library": display.path_text(library.root),
        "deleted": going,
        "cassettes": [row.as_json() for row in rows],
        "file_bytes": sum(row.size for row in rows),
        "kept_with_other_takes": found.stay,
    }
