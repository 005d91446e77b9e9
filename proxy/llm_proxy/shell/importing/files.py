"""Finds the files to import, and names sessions after them."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from llm_proxy.errors import UsageError
from llm_proxy.importing.documents import MAX_FILE
from llm_proxy.importing.source import UnreadableFile

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST: Final = 100
"""Characters of a session's name."""


def find_files(paths: Sequence[Path]) -> list[Path]:
    """The regular files that the paths stand for, each once; hidden ones in folders are not.

    Raises `UsageError` for a path that stands for nothing that could be read.
    """
    found: dict[Path, None] = {}
    for path in paths:
        found |= dict.fromkeys(_files_in_folder(path) if path.is_dir() else _checked_file(path))
    return list(found)


def _checked_file(path: Path) -> list[Path]:
    if not path.is_file():
        why = "is no regular file" if path.exists() else "is not there"
        raise UsageError(f"{path} {why}: name the files and folders to import")
    return [path]


def _files_in_folder(folder: Path) -> Iterator[Path]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        raise UsageError(f"{folder} cannot be read: {error.strerror}") from None
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _files_in_folder(Path(entry.path))
        elif entry.is_file():
            yield Path(entry.path)


def read_content(path: Path) -> bytes:
    """What a file holds.  Raises `Unreadable`."""
    try:
        with path.open("rb") as file:
            return file.read(MAX_FILE + 1)
    except OSError as error:
        raise UnreadableFile(f"it cannot be read: {error.strerror}") from None


def session_names(files: Sequence[Path]) -> dict[Path, str]:
    """A session for each file, called as the file is.

    Where that tells two of them not apart, its folders stand in front; where not even those do, a
    number behind.
    """
    names = {path: _safe_name(path.name.partition(".")[0] or path.name) for path in files}
    shared = {name for name, count in Counter(map(str.lower, names.values())).items() if count > 1}
    taken = {name.lower() for name in names.values()} - shared
    for path, name in names.items():
        if name.lower() in shared:
            names[path] = _unused_name(_safe_name("-".join(_path_suffix(path))), taken)
            taken.add(names[path].lower())
    return names


def _path_suffix(path: Path) -> tuple[str, ...]:
    """The last three names of a path, the last one without what follows its dot."""
    *folders, name = path.absolute().parts[1:]
    return (*folders[-3:], name.partition(".")[0] or name)


def _safe_name(text: str) -> str:
    name = _UNSAFE.sub("-", text).strip("-._")
    return name[-_LONGEST:].lstrip("-._") or "unnamed"


def _unused_name(name: str, taken: set[str]) -> str:
    number, free = 1, name
    while free.lower() in taken:
        number += 1
        free = f"{name[: _LONGEST - 6]}-{number}"
    return free
