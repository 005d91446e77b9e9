"""From a spool to a cassette in the library: whole and durable, or not at all.

The cassette is written beside its place under a temporary name, read back and checked, synced,
renamed, and the folder synced.  A crash at any moment leaves the old file or the new one, and
the spool until the new one is safe.
"""

from __future__ import annotations

import fcntl
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
from typing import Final

from llm_proxy.cassette import Cassette, Meta, StoredRequest, read_cassette, spool
from llm_proxy.errors import CassetteError, SpoolError
from llm_proxy.exchange import Ending, Outcome
from llm_proxy.outcomes import outcome
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.recording.spooling import opened
from llm_proxy.takes import Placement, Shelf

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

    def __init__(self, library: Library, *, renew: bool) -> None:
        """With `renew`, the takes of this run replace the older ones of their key and session."""
        self._library = library
        self._renew = renew
        self._shelves: dict[tuple[str, str], Shelf] = {}
        self._began = timestamp()
        self._warned = False
        self._lock = threading.Lock()

    def file(self, path: Path, ending: Ending, at: float | None, redacted: int) -> Filed | None:
        """Make the cassette of the spool at `path`; None when no head had arrived.

        Raises `SpoolError` where the library cannot be written, and `CassetteError` for what is
        no spool; it stays as it is.
        """
        with opened(path) as spooled:
            if spooled.head_line is None:
                return None
            try:
                return self._file(path, spooled, ending, at, redacted)
            except OSError as error:
                raise SpoolError(
                    f"{self._library.root} cannot be written: {error.strerror}; the recording "
                    f"is kept in {path}: llm-proxy recover"
                ) from None

    def _file(
        self, path: Path, spooled: spool.Spooled, ending: Ending, at: float | None, redacted: int
    ) -> Filed:
        meta, request = spooled.meta, spooled.request
        folder = self._library.place(meta, request, 1).parent
        _make_folder(folder)
        temporary = folder / f".{path.stem}.{token_hex(4)}.tmp"
        temporary.open("xb").close()  # a file that is there is not ours, to write or to delete
        try:
            _write(temporary, spooled, ending, at, redacted)
            cassette = _read_back(temporary, meta)
            found = outcome(cassette)
            with self._lock, _alone(self._library.root):
                shelf = self._shelf(meta, request)
                placement = shelf.place(spooled.target.take, complete=found.complete)
                final = self._put(temporary, meta, request, placement)
        except CassetteError as error:
            raise SpoolError(
                f"the recording in {path} cannot be made a cassette: {error}"
            ) from None
        finally:
            with suppress(FileNotFoundError):
                temporary.unlink()
        return Filed(final, replace(cassette, file=str(final)), found)

    def _shelf(self, meta: Meta, request: StoredRequest) -> Shelf:
        """The numbers of this key and session: those of the run, or else those on disk by now."""
        name = (meta.session, meta.key)
        if name in self._shelves:
            return self._shelves[name]
        shelf = Shelf(
            self._library.numbers(*name),
            renew=self._renew,
            foreign=lambda number: self._foreign(meta, request, number),
        )
        if self._renew:
            self._shelves[name] = shelf
        return shelf

    def _foreign(self, meta: Meta, request: StoredRequest, number: int) -> bool:
        """Whether another process put down a take of that number since this run began."""
        if number not in self._library.numbers(meta.session, meta.key):
            return self._library.place(meta, request, number).exists()
        path = self._library.take(meta.session, meta.key, number).path
        try:
            foreign = self._library.opening(path)[0].recorded >= self._began
        except CassetteError:  # unreadable: an old one, whoever broke it
            return False
        if foreign and not self._warned:
            self._warned = True
            log.warning(
                "another llm-proxy records into %s at the same time: where both record the same "
                "request, the takes of both are kept; give each its own session or --cassettes",
                self._library.root,
            )
        return foreign

    def _put(
        self, temporary: Path, meta: Meta, request: StoredRequest, placement: Placement
    ) -> Path:
        first = self._library.place(meta, request, placement.number)
        self._rename(temporary, first, meta, placement.number)
        for source, target in placement.move:
            parked = self._library.remove(meta.session, meta.key, source)
            if parked is not None:
                self._rename(parked.path, self._library.place(meta, request, target), meta, target)
        for number in placement.remove:
            old = self._library.remove(meta.session, meta.key, number)
            if old is not None:
                old.path.unlink(missing_ok=True)
        _sync_folder(first.parent)
        return self._library.take(meta.session, meta.key, placement.final).path

    def _rename(self, source: Path, target: Path, meta: Meta, number: int) -> None:
        """Put `source` at `target`, in place of whatever held that number, wherever it lay."""
        replaced = self._library.remove(meta.session, meta.key, number)
        source.replace(target)
        if replaced is not None and replaced.path != target:
            replaced.path.unlink(missing_ok=True)
        self._library.add(target, meta.session, meta.key, number)


def timestamp() -> str:
    """The present, as line 1 of a cassette has it: UTC, ISO 8601 with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@contextmanager
def _alone(root: Path) -> Iterator[None]:
    """No other process files in this library meanwhile, where the file system has locks."""
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(OSError):
            fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _make_folder(folder: Path) -> None:
    """Make a folder that is there after a power cut too, with those above it."""
    missing = [it for it in (folder, *folder.parents) if not it.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for made in missing:
        _sync_folder(made.parent)


def _write(
    temporary: Path, spooled: spool.Spooled, ending: Ending, at: float | None, redacted: int
) -> None:
    with temporary.open("wb") as file:
        for lines in spool.assemble(spooled, ending, at, redacted):
            file.write(lines)
        file.flush()
        os.fsync(file.fileno())


def _read_back(temporary: Path, meta: Meta) -> Cassette:
    cassette = read_cassette(str(temporary), temporary.read_bytes())
    if cassette.meta != meta:
        raise CassetteError(str(temporary), 1, "another recording was written over it")
    return cassette


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
