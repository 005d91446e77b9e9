"""Files a spool as a cassette in the library: whole and durable, or not at all.

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
from llm_proxy.outcome import outcome_of
from llm_proxy.shell.library.folder_lock import exclusive_access
from llm_proxy.shell.library.folders import make_folder, sync_folder
from llm_proxy.shell.library.library import Library, take_of_name
from llm_proxy.shell.recording.spooling import open_spool
from llm_proxy.shell.recording.stored_attempts import StoredAttempt, StoredAttempts
from llm_proxy.take_numbers import LogicalRequest, TakeAllocator, TakePlacement

log: Final = logging.getLogger("llm_proxy")

TEMPORARY: Final = re.compile(r"\.(\d+-\d+(?:\.\d+)?)\.[0-9a-f]{8}\.tmp")
"""The name of a cassette that is being written: the spool's, and something of its own."""


@dataclass(frozen=True, slots=True)
class FiledCassette:
    """A recording that became a cassette."""

    path: Path
    cassette: Cassette
    outcome: Outcome


class CassetteFiler:
    """Files finished takes in one library.  Safe to use from several threads."""

    def __init__(self, library: Library, *, renew: bool, once: bool = False) -> None:
        """With `renew`, the takes of this run replace the older ones of their key and session.

        With `once`, a recording whose cassette is in the library already is not put there again.
        """
        self._library = library
        self._replaces_older = renew
        self._one_take_per_key = once
        self._allocators: dict[tuple[str, str], TakeAllocator] = {}
        self._existing_identities: dict[str, tuple[int, int]] = {}
        """The files of the takes that were there when this run began."""
        self._attempts = StoredAttempts()
        self._warned_keys = False
        self._lock = threading.Lock()

    def scan_existing(self) -> None:
        """Remember what is there by now: another process has put down what comes beside it.

        To be called before anything is filed; it takes a second where there are 100,000.
        """
        if self._replaces_older:
            self._existing_identities = _file_identities(self._library)

    def file_spool(
        self,
        path: Path,
        default_ending: SpoolEnd = BROKEN_OFF,
        logical_request: LogicalRequest | None = None,
    ) -> FiledCassette | None:
        """Make the cassette of the spool at `path`, in place of an earlier attempt at the wish.

        It ended `otherwise` where the spool does not say how.  None when no head had arrived, or
        another attempt is kept instead.

        Raises `SpoolError` where the library cannot be written, and `CassetteError` for what is
        no spool; it stays as it is.
        """
        with open_spool(path) as spooled:
            if spooled.head_line is None:
                return None
            try:
                return self._file_spool_content(path.stem, spooled, default_ending, logical_request)
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

    def file_content(self, spooled: spool.SpoolContent) -> FiledCassette:
        """Make the cassette of what was never in a spool file, behind the takes that are there.

        Raises `SpoolError` where the library cannot be written, and `CassetteError` for what no
        cassette could hold.
        """
        try:
            filed = self._file_spool_content(f"{os.getpid()}-0", spooled, BROKEN_OFF, None)
        except OSError as error:
            raise SpoolError(f"{self._library.root} cannot be written: {error.strerror}") from None
        assert filed is not None  # noqa: S101 # only an attempt of an SDK's can be left out
        return filed

    def _file_spool_content(
        self,
        stem: str,
        spooled: spool.SpoolContent,
        end: SpoolEnd,
        logical_request: LogicalRequest | None,
    ) -> FiledCassette | None:
        meta, request = spooled.meta, spooled.request
        folder = self._library.path_for_take(meta, request, 1).parent
        make_folder(folder)
        temporary = folder / f".{stem}.{token_hex(4)}.tmp"
        with _temporary_file(temporary) as file:
            file.writelines(spool.assemble_cassette(spooled, end))
            file.flush()
            os.fsync(file.fileno())
            cassette = _verify_written(temporary, meta)
            found = outcome_of(cassette)
            with self._lock, exclusive_access(self._library.root):
                final = self._existing_copy(temporary, meta) if self._one_take_per_key else None
                final = final or self._place_or_replace(
                    temporary, spooled, logical_request, complete=found.complete
                )
        if final is None:
            return None
        return FiledCassette(final, replace(cassette, file=str(final)), found)

    def _existing_copy(self, temporary: Path, meta: Meta) -> Path | None:
        """The take that is this very recording; None where there is none."""
        numbers = self._library.numbers(meta.session, meta.key)
        takes = (self._library.take(meta.session, meta.key, number).path for number in numbers)
        return next((take for take in takes if filecmp.cmp(temporary, take, shallow=False)), None)

    def _place_or_replace(
        self,
        temporary: Path,
        spooled: spool.SpoolContent,
        logical_request: LogicalRequest | None,
        *,
        complete: bool,
    ) -> Path | None:
        """Put a finished cassette down, or where an earlier attempt at its wish lies.

        None where that one is kept.
        """
        take, before = spooled.target.take, self._attempts.attempt_of(logical_request)
        if before is not None and logical_request is not None:
            if not before.is_replaced_by(logical_request, complete=complete):
                return None
            shelf = self._allocator_of(spooled.meta, spooled.request)
            if not (shelf.is_replacing and complete):
                temporary.replace(before.path)
                sync_folder(before.path.parent)
                self._library.forget_cached(before.path)
                self._attempts.remember(
                    logical_request,
                    replace(before, attempt=logical_request.attempt, complete=complete),
                )
                return before.path
            self._delete_attempt(before, shelf, spooled.meta)
        final = self._place_as_take(temporary, spooled, complete=complete)
        if logical_request is not None:
            self._attempts.remember(
                logical_request, StoredAttempt(final, take, logical_request.attempt, complete)
            )
        return final

    def _delete_attempt(self, before: StoredAttempt, shelf: TakeAllocator, meta: Meta) -> None:
        """Delete an incomplete attempt: the complete one that follows is on the disk."""
        take = take_of_name(self._library.root, before.path)
        if take is not None:
            self._delete_take(meta, take.number)
            shelf.forget(before.take, take.number)

    def _place_as_take(
        self, temporary: Path, spooled: spool.SpoolContent, *, complete: bool
    ) -> Path:
        """Give a finished cassette its number; where that fails, the shelf is as it was."""
        meta, request = spooled.meta, spooled.request
        shelf = self._allocator_of(meta, request)
        before = shelf.copy()
        placement = shelf.place_take(spooled.target.take, complete=complete)
        first = self._library.path_for_take(meta, request, placement.number)
        try:
            self._rename_take(temporary, first, meta, placement.number)
            sync_folder(first.parent)
        except OSError:
            if self._replaces_older:
                self._allocators[meta.session, meta.key] = before
            raise
        return self._apply_placement(first, meta, request, placement)

    def _allocator_of(self, meta: Meta, request: StoredRequest) -> TakeAllocator:
        """The numbers of this key and session: those of the run, or else those on disk by now."""
        name = (meta.session, meta.key)
        if name in self._allocators:
            return self._allocators[name]
        bare = replace(request, headers=(), body=b"")  # it is kept as long as the run
        shelf = TakeAllocator(
            self._library.numbers(*name),
            renew=self._replaces_older,
            foreign=lambda number: self._is_foreign_take(meta, bare, number),
        )
        if self._replaces_older:
            self._allocators[name] = shelf
        return shelf

    def _is_foreign_take(self, meta: Meta, request: StoredRequest, number: int) -> bool:
        """Whether another process put down a take of that number since this run began."""
        path = self._library.path_for_take(meta, request, number)
        if number in self._library.numbers(meta.session, meta.key):
            path = self._library.take(meta.session, meta.key, number).path
        there = _file_identity(str(path))
        foreign = there is not None and there != self._existing_identities.get(str(path))
        if foreign and self._replaces_older and not self._warned_keys:
            self._warned_keys = True
            log.warning(
                "%s was put there by another process since this run began; it is kept beside the "
                "new takes: give each recorder its own session or --cassettes",
                path,
            )
        return foreign

    def _apply_placement(
        self, where: Path, meta: Meta, request: StoredRequest, placement: TakePlacement
    ) -> Path:
        """Renumber and delete what the new take at `where` calls for; gives where it is then.

        It is safe by now: what fails here is told, and costs no recording.
        """
        try:
            for source, target in placement.moves:
                parked = self._library.remove(meta.session, meta.key, source)
                if parked is None or not parked.path.exists():  # deleted by hand
                    self._delete_take(meta, target)
                    continue
                home = self._library.path_for_take(meta, request, target)
                self._rename_take(parked.path, home, meta, target)
                where = home if parked.path == where else where
            for number in placement.removals:
                self._delete_take(meta, number)
            sync_folder(where.parent)
        except OSError as error:
            log.warning("older takes beside %s could not be tidied: %s", where, error.strerror)
        return where

    def _delete_take(self, meta: Meta, number: int) -> None:
        old = self._library.remove(meta.session, meta.key, number)
        if old is not None:
            old.path.unlink(missing_ok=True)

    def _rename_take(self, source: Path, target: Path, meta: Meta, number: int) -> None:
        """Put `source` at `target`, in place of whatever held that number, wherever it lay."""
        source.replace(target)
        self._attempts.renamed(source, target)
        replaced = self._library.remove(meta.session, meta.key, number)
        if replaced is not None and replaced.path != target:
            replaced.path.unlink(missing_ok=True)
        self._library.add(target, meta.session, meta.key, number)


def _file_identities(library: Library) -> dict[str, tuple[int, int]]:
    found = ((path, _file_identity(path)) for path in library.paths())
    return {path: identity for path, identity in found if identity is not None}


def _file_identity(path: str) -> tuple[int, int] | None:
    """Inode and time of a file; None where there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116 # 100,000 times at the start: no `CountedPath` for each
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def timestamp_now() -> str:
    """The present, as line 1 of a cassette has it: UTC, ISO 8601 with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@contextmanager
def _temporary_file(temporary: Path) -> Iterator[BinaryIO]:
    """A new file, held as long as it is written, and gone afterwards unless it was renamed."""
    with temporary.open("xb") as file:  # one that is there is not ours, to write or to delete
        try:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(file, fcntl.LOCK_EX)
            yield file
        finally:
            with suppress(OSError):  # it was renamed; else `recover` deletes it
                temporary.unlink()


def _verify_written(temporary: Path, meta: Meta) -> Cassette:
    cassette = read_cassette(str(temporary), temporary.read_bytes())
    if cassette.meta != meta:
        raise CassetteError(str(temporary), 1, "another recording was written over it")
    return cassette
