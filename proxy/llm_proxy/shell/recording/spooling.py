"""Spool files: creation, locking, and finding those that a crash left behind.

A spool is outside the library, readable by its owner alone, and locked for as long as its
recorder lives.  The kernel drops the lock with the process, so an unlocked spool is one that a
crash left behind.
"""

from __future__ import annotations

import fcntl
import itertools
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from llm_proxy.cassette import spool
from llm_proxy.cassette.spool import SpoolContent
from llm_proxy.errors import CassetteError, SpoolError
from llm_proxy.shell.private_files import make_private_folder, private_opener

MAX_BODY_BYTES: Final = 160 * 1024 * 1024
"""Maximum size of a stored body, such that a cassette practically always fits its own limit."""
log: Final = logging.getLogger("llm_proxy")

SPOOL_SUFFIX: Final = ".spool"


class SpoolFile:
    """A spool that this process appends to."""

    def __init__(self, folder: Path, name: str) -> None:
        """Create the file, numbered if `name` is taken.  Raises `SpoolError` if that fails."""
        try:
            make_private_folder(folder)
            self.path, self._fd = _create_spool(folder, name.removesuffix(SPOOL_SUFFIX))
        except OSError as error:
            raise SpoolError(f"cannot create {folder / name}: {error.strerror}") from None

    def append(self, data: bytes) -> None:
        """Write `data` to the kernel, so that it survives the death of this process.

        Raises `SpoolError` if the disk is full or gone.
        """
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError as error:
            raise SpoolError(f"cannot write {self.path}: {error.strerror}") from None

    def discard(self) -> None:
        """Close and delete the file: its cassette was filed, or there is nothing to keep."""
        try:
            self.path.unlink(missing_ok=True)
        except OSError as error:  # `recover` recognises that its cassette exists
            log.warning("cannot delete %s: %s; no data is lost", self.path, error.strerror)
        finally:
            self.close_and_keep()

    def close_and_keep(self) -> None:
        """Close the file, which drops its lock, and leave it for `recover`."""
        os.close(self._fd)


def abandoned_spools(folder: Path) -> list[Path]:
    """The spools that no living process has locked, oldest first.

    Raises `SpoolError` if the folder cannot be read.
    """
    abandoned: list[Path] = []
    for path in all_spools(folder):
        with claim_file(path) as is_claimed:
            if is_claimed:
                abandoned.append(path)
    return abandoned


class AbandonedSpoolCounts(NamedTuple):
    """How many spools a crash left behind, by their library."""

    own: int
    """Those of the library in question."""
    other: int
    """Those of other libraries."""
    unreadable: int


def count_abandoned_spools(folder: Path, library: Path) -> AbandonedSpoolCounts:
    """Count the abandoned spools of a folder.  Raises `SpoolError` if the folder cannot be read."""
    own = other = unreadable = 0
    for path in abandoned_spools(folder):
        try:
            with open_spool(path) as spooled:
                is_own = is_for_library(spooled, library)
        except CassetteError:
            unreadable += 1
        else:
            own += is_own
            other += not is_own
    return AbandonedSpoolCounts(own, other, unreadable)


def all_spools(folder: Path) -> list[Path]:
    """Every spool of a folder, locked or not, oldest first; none if there is no folder.

    Raises `SpoolError` if the folder cannot be read.
    """
    spools: list[tuple[int, Path]] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith(SPOOL_SUFFIX):
                    with suppress(FileNotFoundError):
                        mtime_ns = entry.stat(follow_symlinks=False).st_mtime_ns
                        spools.append((mtime_ns, Path(entry.path)))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise SpoolError(f"cannot read {folder}: {error.strerror}") from None
    return [path for _, path in sorted(spools)]


@contextmanager
def claim_file(path: Path) -> Iterator[bool]:
    """Lock a file as its writer does; yields False if another process has it, or it is gone."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:  # it is gone, or not permitted
        yield False
        return
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_claimed = os.fstat(fd).st_nlink > 0
        except OSError:  # another process has it, or the file system has no locks
            is_claimed = False
        yield is_claimed
    finally:
        os.close(fd)


@contextmanager
def open_spool(path: Path) -> Iterator[SpoolContent]:
    """The content of a spool, which may be cut short; its reads are lazy, and need it open.

    Raises `CassetteError` if its first lines are incomplete.
    """
    try:
        file = path.open("rb")
    except OSError as error:
        raise CassetteError(str(path), None, f"cannot read the file: {error.strerror}") from None
    with file:
        yield spool.parse_spool(str(path), file)


def is_for_library(spooled: SpoolContent, library: Path) -> bool:
    """Whether a spool is for the library in this folder, whatever the spelling of its path."""
    try:
        return Path(spooled.target_line.library).resolve() == library.resolve()
    except (OSError, ValueError):  # an invalid path
        return False


def _create_spool(folder: Path, stem: str) -> tuple[Path, int]:
    """The path of a new spool and its file descriptor, locked.

    Process ids are reused (in a container it is always the same), so the name may be that of a
    spool which a crash left behind.  And `recover` may find the empty file before it is locked,
    and delete it: then another one is created.
    """
    for number in itertools.count(1):
        path = folder / f"{stem}{f'.{number}' if number > 1 else ''}{SPOOL_SUFFIX}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        try:
            fd = private_opener(str(path), flags)
        except FileExistsError:
            continue
        fcntl.flock(fd, fcntl.LOCK_EX)
        if os.fstat(fd).st_nlink > 0:
            return path, fd
        os.close(fd)
    raise AssertionError("unreachable")
