"""Creates files and folders that only their owner can read or write, whatever the umask.

The mode is given when they are created, so nobody else can open them in between; `fchmod` and
`chmod` only add what a umask took from the owner.  The umask itself belongs to the whole process.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from secrets import token_hex
from typing import Final

_FILE_MODE: Final = 0o600
_FOLDER_MODE: Final = 0o700


def private_opener(path: str, flags: int) -> int:
    """An opener for `open`: a file that it creates is private; an existing one keeps its mode."""
    try:
        fd = os.open(path, flags | os.O_EXCL, _FILE_MODE)
    except FileExistsError:
        if flags & os.O_EXCL:
            raise
        return os.open(path, flags, _FILE_MODE)
    with suppress(OSError):  # a file system without modes
        os.fchmod(fd, _FILE_MODE)
    return fd


def make_private_folder(folder: Path) -> None:
    """Create a folder and its missing parents, private; an existing one keeps its mode."""
    missing = takewhile(lambda path: not path.exists(), (folder, *folder.parents))
    for path in reversed([*missing]):
        with suppress(FileExistsError):  # another process has just created it
            path.mkdir(mode=_FOLDER_MODE)
            with suppress(OSError):  # a file system without modes
                path.chmod(_FOLDER_MODE)
    folder.mkdir(exist_ok=True)  # raises for a file


def replace_file(path: Path, content: bytes) -> None:
    """Write a file atomically: a new one is private, an existing one keeps its mode."""
    temporary = path.with_name(f".{path.name}.{token_hex(4)}.tmp")
    with open(temporary, "xb", opener=private_opener) as file:
        try:
            file.write(content)
            file.flush()
            with suppress(OSError):  # there is none, or a file system without modes
                os.fchmod(file.fileno(), stat.S_IMODE(path.stat().st_mode))
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
