"""From a spool to a cassette in the library: whole and durable, or not at all.

The cassette is written beside its place under a temporary name, read back and checked, synced,
renamed, and the folder synced.  A crash at any moment leaves the old file or the new one, and
the spool until the new one is safe.
"""

from __future__ import annotations

import fcntl
import filecmp
import logging
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO, Final

from llm_proxy.cassette import Cassette, Meta, StoredRequest, read_cassette, spool
from llm_proxy.cassette.spool import BROKEN_OFF, SpoolEnd
from llm_proxy.display import shell_word
from llm_proxy.errors import CassetteError, SpoolError
from llm_proxy.exchange import Outcome
from llm_proxy.outcome import outcome
from llm_proxy.shell.library.exclusive_access import alone
from llm_proxy.shell.library.folders import make_folder, sync_folder
from llm_proxy.shell.library.library import Library, named_take
from llm_proxy.shell.recording.spooling import opened
from llm_proxy.shell.recording.stored_attempts import Attempts, Placed
from llm_proxy.take_numbers import Placement, Shelf, Wish

log: Final = logging.getLogger("llm_proxy")

TEMPORARY: Final = re.compile(r"\.(\d+-\d+(?:\.\d+)?)\.[0-9a-f]{8}\.tmp")
"""The name of a cassette that is being written: the spool's, and something of its own."""


@dataclass(frozen=True, slots=True)
class Filed:
    """A recording that became a cassette."""

    path: Path
    cassette: Cassette
    outcome: Outcome


class Files:
    """Files finished takes in one library.  Safe to use from several threads."""

    def __init__(self, library: Library, *, renew: bool, once: bool = False) -> None:
        """With `renew`, the takes of this run replace the older ones of their key and session.

        With `once`, a recording whose cassette is in the library already is not put there again.
        """
        self._library = library
        self._renew = renew
        self._once = once
        self._shelves: dict[tuple[str, str], Shelf] = {}
        self._found: dict[str, tuple[int, int]] = {}
        """The files of the takes that were there when this run began."""
        self._attempts = Attempts()
        self._warned = False
        self._lock = threading.Lock()

    def look(self) -> None:
        """Remember what is there by now: another process has put down what comes beside it.

        To be called before anything is filed; it takes a second where there are 100,000.
        """
        if self._renew:
            self._found = _identities(self._library)

    def file(
        self, path: Path, otherwise: SpoolEnd = BROKEN_OFF, wish: Wish | None = None
    ) -> Filed | None:
        """Make the cassette of the spool at `path`, in place of an earlier attempt at the wish.

        It ended `otherwise` where the spool does not say how.  None when no head had arrived, or
        another attempt is kept instead.

        Raises `SpoolError` where the library cannot be written, and `CassetteError` for what is
        no spool; it stays as it is.
        """
        with opened(path) as spooled:
            if spooled.head_line is None:
                return None
            try:
                return self._file(path.stem, spooled, otherwise, wish)
            except CassetteError as error:
                raise SpoolError(
                    f"the recording in {path} cannot be made a cassette: {error}"
                ) from None
            except OSError as error:
                raise SpoolError(
                    f"{self._library.root} cannot be written: {error.strerror}; the recording "
                    f"is kept in {path}: llm-proxy recover --cassettes "
                    f"{shell_word(self._library.root)} --spool {shell_word(path.parent)}"
                ) from None

    def put(self, spooled: spool.Spooled) -> Filed:
        """Make the cassette of what was never in a spool file, behind the takes that are there.

        Raises `SpoolError` where the library cannot be written, and `CassetteError` for what no
        cassette could hold.
        """
        try:
            filed = self._file(f"{os.getpid()}-0", spooled, BROKEN_OFF, None)
        except OSError as error:
            raise SpoolError(f"{self._library.root} cannot be written: {error.strerror}") from None
        assert filed is not None  # noqa: S101 # only an attempt of an SDK's can be left out
        return filed

    def _file(
        self, stem: str, spooled: spool.Spooled, end: SpoolEnd, wish: Wish | None
    ) -> Filed | None:
        meta, request = spooled.meta, spooled.request
        folder = self._library.place(meta, request, 1).parent
        make_folder(folder)
        temporary = folder / f".{stem}.{token_hex(4)}.tmp"
        with _held(temporary) as file:
            file.writelines(spool.assemble(spooled, end))
            file.flush()
            os.fsync(file.fileno())
            cassette = _read_back(temporary, meta)
            found = outcome(cassette)
            with self._lock, alone(self._library.root):
                final = self._twin(temporary, meta) if self._once else None
                final = final or self._settle(temporary, spooled, wish, complete=found.complete)
        if final is None:
            return None
        return Filed(final, replace(cassette, file=str(final)), found)

    def _twin(self, temporary: Path, meta: Meta) -> Path | None:
        """The take that is this very recording; None where there is none."""
        numbers = self._library.numbers(meta.session, meta.key)
        takes = (self._library.take(meta.session, meta.key, number).path for number in numbers)
        return next((it for it in takes if filecmp.cmp(temporary, it, shallow=False)), None)

    def _settle(
        self, temporary: Path, spooled: spool.Spooled, wish: Wish | None, *, complete: bool
    ) -> Path | None:
        """Put a finished cassette down, or where an earlier attempt at its wish lies.

        None where that one is kept.
        """
        take, before = spooled.target.take, self._attempts.of(wish)
        if before is not None and wish is not None:
            if not before.yields_to(wish, complete=complete):
                return None
            shelf = self._shelf(spooled.meta, spooled.request)
            if not (shelf.renews and complete):
                temporary.replace(before.path)
                sync_folder(before.path.parent)
                self._library.forget(before.path)
                self._attempts.put(wish, replace(before, attempt=wish.attempt, complete=complete))
                return before.path
            self._give_up(before, shelf, spooled.meta)
        final = self._shelve(temporary, spooled, complete=complete)
        if wish is not None:
            self._attempts.put(wish, Placed(final, take, wish.attempt, complete))
        return final

    def _give_up(self, before: Placed, shelf: Shelf, meta: Meta) -> None:
        """Delete an incomplete attempt: the complete one that follows is on the disk."""
        take = named_take(self._library.root, before.path)
        if take is not None:
            self._delete(meta, take.number)
            shelf.forget(before.take, take.number)

    def _shelve(self, temporary: Path, spooled: spool.Spooled, *, complete: bool) -> Path:
        """Give a finished cassette its number; where that fails, the shelf is as it was."""
        meta, request = spooled.meta, spooled.request
        shelf = self._shelf(meta, request)
        before = shelf.copy()
        placement = shelf.place(spooled.target.take, complete=complete)
        first = self._library.place(meta, request, placement.number)
        try:
            self._rename(temporary, first, meta, placement.number)
            sync_folder(first.parent)
        except OSError:
            if self._renew:
                self._shelves[meta.session, meta.key] = before
            raise
        return self._tidy(first, meta, request, placement)

    def _shelf(self, meta: Meta, request: StoredRequest) -> Shelf:
        """The numbers of this key and session: those of the run, or else those on disk by now."""
        name = (meta.session, meta.key)
        if name in self._shelves:
            return self._shelves[name]
        bare = replace(request, headers=(), body=b"")  # it is kept as long as the run
        shelf = Shelf(
            self._library.numbers(*name),
            renew=self._renew,
            foreign=lambda number: self._foreign(meta, bare, number),
        )
        if self._renew:
            self._shelves[name] = shelf
        return shelf

    def _foreign(self, meta: Meta, request: StoredRequest, number: int) -> bool:
        """Whether another process put down a take of that number since this run began."""
        path = self._library.place(meta, request, number)
        if number in self._library.numbers(meta.session, meta.key):
            path = self._library.take(meta.session, meta.key, number).path
        there = _identity(str(path))
        foreign = there is not None and there != self._found.get(str(path))
        if foreign and self._renew and not self._warned:
            self._warned = True
            log.warning(
                "%s was put there by another process since this run began; it is kept beside the "
                "new takes: give each recorder its own session or --cassettes",
                path,
            )
        return foreign

    def _tidy(self, where: Path, meta: Meta, request: StoredRequest, placement: Placement) -> Path:
        """Renumber and delete what the new take at `where` calls for; gives where it is then.

        It is safe by now: what fails here is told, and costs no recording.
        """
        try:
            for source, target in placement.move:
                parked = self._library.remove(meta.session, meta.key, source)
                if parked is None or not parked.path.exists():  # deleted by hand
                    self._delete(meta, target)
                    continue
                home = self._library.place(meta, request, target)
                self._rename(parked.path, home, meta, target)
                where = home if parked.path == where else where
            for number in placement.remove:
                self._delete(meta, number)
            sync_folder(where.parent)
        except OSError as error:
            log.warning("older takes beside %s could not be tidied: %s", where, error.strerror)
        return where

    def _delete(self, meta: Meta, number: int) -> None:
        old = self._library.remove(meta.session, meta.key, number)
        if old is not None:
            old.path.unlink(missing_ok=True)

    def _rename(self, source: Path, target: Path, meta: Meta, number: int) -> None:
        """Put `source` at `target`, in place of whatever held that number, wherever it lay."""
        source.replace(target)
        self._attempts.moved(source, target)
        replaced = self._library.remove(meta.session, meta.key, number)
        if replaced is not None and replaced.path != target:
            replaced.path.unlink(missing_ok=True)
        self._library.add(target, meta.session, meta.key, number)


def _identities(library: Library) -> dict[str, tuple[int, int]]:
    """What tells each file of a library from one that takes its place."""
    found = ((path, _identity(path)) for path in library.paths())
    return {path: identity for path, identity in found if identity is not None}


def _identity(path: str) -> tuple[int, int] | None:
    """Inode and time of a file; None where there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116 # 100,000 times at the start: no `Path` for each
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def timestamp() -> str:
    """The present, as line 1 of a cassette has it: UTC, ISO 8601 with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@contextmanager
def _held(temporary: Path) -> Iterator[BinaryIO]:
    """A new file, held as long as it is written, and gone afterwards unless it was renamed."""
    with temporary.open("xb") as file:  # one that is there is not ours, to write or to delete
        try:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(file, fcntl.LOCK_EX)
            yield file
        finally:
            with suppress(OSError):  # it was renamed; else `recover` deletes it
                temporary.unlink()


def _read_back(temporary: Path, meta: Meta) -> Cassette:
    cassette = read_cassette(str(temporary), temporary.read_bytes())
    if cassette.meta != meta:
        raise CassetteError(str(temporary), 1, "another recording was written over it")
    return cassette
