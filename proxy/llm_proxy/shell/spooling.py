"""Spool files: where they lie, who holds them, and what a crash left behind.

A spool lies outside the library, readable by its owner alone, and is locked for as long as its
recorder lives.  The kernel drops the lock with the process, so a spool that nobody holds is one
that a crash left behind.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from llm_proxy.cassette import spool
from llm_proxy.errors import CassetteError, SpoolError


class SpoolFile:
    """A spool that this process appends to."""

    def __init__(self, folder: Path, name: str) -> None:
        """Raises `SpoolError` where it cannot be made."""
        self.path = folder / name
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
            self._fd = os.open(self.path, flags, 0o600)
        except OSError as error:
            raise SpoolError(f"{self.path} cannot be made: {error.strerror}") from None
        fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

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
        with suppress(FileNotFoundError):
            self.path.unlink()
        self.release()

    def release(self) -> None:
        """Let go of it and leave it there, for `recover`."""
        os.close(self._fd)


def abandoned(folder: Path, library: Path) -> Iterator[Path]:
    """The spools of this library that no living recorder holds, oldest first."""
    try:
        paths = sorted(folder.glob("*.spool"), key=lambda path: path.stat().st_mtime_ns)
    except OSError:
        return
    for path in paths:
        if not _held(path) and _library(path) == library:
            yield path


def _held(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return True  # it is gone, or not ours to read
    return False


def _library(path: Path) -> Path | None:
    try:
        with path.open("rb") as lines:
            return Path(spool.parse(str(path), lines).target.library)
    except (OSError, CassetteError):
        return None
