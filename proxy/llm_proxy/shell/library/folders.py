"""Creates folders so that they survive a power cut, and locks them for one process at a time."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def make_folder(folder: Path) -> None:
    """Create a folder and its parents, and sync them so that they survive a power cut."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for created in missing:
        sync_folder(created.parent)


def sync_folder(folder: Path) -> None:
    """Sync a folder's entries to the disk."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Lock a folder against other llm-proxy processes; no lock if the file system has none."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(OSError):
            fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
