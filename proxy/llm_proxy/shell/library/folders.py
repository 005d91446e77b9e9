"""Creates and syncs folders so that they survive a power cut."""

from __future__ import annotations

import os
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
