"""Finds the files to import, and names sessions after them."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from llm_proxy.errors import UsageError
from llm_proxy.importing.file_parsing import MAX_FILE_BYTES
from llm_proxy.importing.source import UnreadableFile

_UNSAFE_CHARS: Final = re.compile(r"[^A-Za-z0-9._-]+")
_MAX_NAME_CHARS: Final = 100
"""Maximum length of a session's name."""


def find_files(paths: Sequence[Path]) -> list[Path]:
    """The regular files at and below the paths, each once; hidden ones in folders are skipped.

    Raises `UsageError` for a path that does not exist or cannot be read.
    """
    unique_files: dict[Path, None] = {}
    for path in paths:
        unique_files |= dict.fromkeys(
            _files_in_folder(path) if path.is_dir() else _checked_file(path)
        )
    return list(unique_files)


def _checked_file(path: Path) -> list[Path]:
    if not path.is_file():
        reason = "is no regular file" if path.exists() else "is not there"
        raise UsageError(f"{path} {reason}: name the files and folders to import")
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
    """The bytes of a file, up to one more than `MAX_FILE_BYTES`.  Raises `UnreadableFile`."""
    try:
        with path.open("rb") as file:
            return file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise UnreadableFile(f"it cannot be read: {error.strerror}") from None


def assign_session_names(files: Sequence[Path]) -> dict[Path, str]:
    """A session name for each file: the file's name without extensions.

    Ambiguous names are prefixed with the file's folders, and if still ambiguous, numbered.
    """
    names = {path: _safe_name(path.name.partition(".")[0] or path.name) for path in files}
    ambiguous_names = {
        name for name, count in Counter(map(str.lower, names.values())).items() if count > 1
    }
    used_names = {name.lower() for name in names.values()} - ambiguous_names
    for path, name in names.items():
        if name.lower() in ambiguous_names:
            names[path] = _unused_name(_safe_name("-".join(_name_with_folders(path))), used_names)
            used_names.add(names[path].lower())
    return names


def _name_with_folders(path: Path) -> tuple[str, ...]:
    """The path's last three folders, and its file name without extensions."""
    *folders, name = path.absolute().parts[1:]
    return (*folders[-3:], name.partition(".")[0] or name)


def _safe_name(text: str) -> str:
    name = _UNSAFE_CHARS.sub("-", text).strip("-._")
    return name[-_MAX_NAME_CHARS:].lstrip("-._") or "unnamed"


def _unused_name(name: str, used_names: set[str]) -> str:
    number, candidate = 1, name
    while candidate.lower() in used_names:
        number += 1
        candidate = f"{name[: _MAX_NAME_CHARS - 6]}-{number}"
    return candidate
