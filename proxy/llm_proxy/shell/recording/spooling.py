"""Spool files: location, locking, and what a crash left behind.

A spool lies outside the library, readable by its owner alone, and is locked for as long as its
recorder lives.  The kernel drops the lock with the process, so a spool that nobody holds is one
that a crash left behind.
"""

from __future__ import annotations

import fcntl
import itertools
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from llm_proxy.cassette import spool
from llm_proxy.cassette.spool import SpoolContent
from llm_proxy.errors import CassetteError, SpoolError

log: Final = logging.getLogger("llm_proxy")

SUFFIX: Final = ".spool"


class SpoolFile:
    """A spool that this process appends to."""

    def __init__(self, folder: Path, name: str) -> None:
        """With another name where `name` is taken.  Raises `SpoolError` where it cannot be made."""
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.path, self._fd = _create_spool(folder, name.removesuffix(SUFFIX))
        except OSError as error:
            raise SpoolError(f"{folder / name} cannot be made: {error.strerror}") from None

    def append(self, data: bytes) -> None:
        """Hand `data` to the kernel, which keeps it whatever happens to this process.

        Raises `SpoolError` when the disk is full or gone.
        """
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError as error:
            raise SpoolError(f"{self.path} cannot be written: {error.strerror}") from None

    def discard(self) -> None:
        """Delete it: its cassette is in the library, or there is nothing to keep."""
        try:
            self.path.unlink(missing_ok=True)
        except OSError as error:  # `recover` knows that its cassette is there
            log.warning("%s cannot be deleted: %s; nothing is lost", self.path, error.strerror)
        finally:
            self.release()

    def release(self) -> None:
        """Let go of it and leave it there, for `recover`."""
        os.close(self._fd)


def abandoned_spools(folder: Path) -> list[Path]:
    """The spools that no living process holds, oldest first.

    Raises `SpoolError` where the folder cannot be read.
    """
    found: list[Path] = []
    for path in all_spools(folder):
        with claim_spool(path) as mine:
            if mine:
                found.append(path)
    return found


def all_spools(folder: Path) -> list[Path]:
    """Every spool of a folder, whoever holds it, oldest first; none where there is no folder.

    Raises `SpoolError` where the folder cannot be read.
    """
    found: list[tuple[int, Path]] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith(SUFFIX):
                    with suppress(FileNotFoundError):
                        age = entry.stat(follow_symlinks=False).st_mtime_ns
                        found.append((age, Path(entry.path)))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise SpoolError(f"{folder} cannot be read: {error.strerror}") from None
    return [path for _, path in sorted(found)]


@contextmanager
def claim_spool(path: Path) -> Iterator[bool]:
    """Hold a spool as its recorder would: False where somebody else does, or it is gone."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:  # it is gone, or not ours
        yield False
        return
    try:
        yield _try_lock(fd) and os.fstat(fd).st_nlink > 0
    finally:
        os.close(fd)


@contextmanager
def open_spool(path: Path) -> Iterator[SpoolContent]:
    """A spool as far as it goes, its reads to be taken while it is open.

    Raises `CassetteError` where not even its opening is whole.
    """
    try:
        lines = path.open("rb")
    except OSError as error:
        raise CassetteError(str(path), None, f"it cannot be read: {error.strerror}") from None
    with lines:
        yield spool.parse_spool(str(path), lines)


def belongs_to(spooled: SpoolContent, library: Path) -> bool:
    """Whether a spool was made for the library in this folder, however the folder is spelled."""
    try:
        return Path(spooled.target.library).resolve() == library.resolve()
    except (OSError, ValueError):  # a path that no system call takes
        return False


def _create_spool(folder: Path, stem: str) -> tuple[Path, int]:
    """A new spool and its descriptor, locked.

    A process id comes again (in a container it is always the same), so the name may be that of
    a spool which a crash left behind.  And `recover` may find the empty file in the moment
    before it is locked, and delete it: then another one is made.
    """
    for number in itertools.count(1):
        path = folder / f"{stem}{f'.{number}' if number > 1 else ''}{SUFFIX}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        try:
            fd = os.open(path, flags, 0o600)
        except FileExistsError:
            continue
        fcntl.flock(fd, fcntl.LOCK_EX)
        if os.fstat(fd).st_nlink > 0:
            return path, fd
        os.close(fd)
    raise AssertionError("counting never ends")


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # somebody else has it, or the file system knows no locks
        return False
    return True
