"""Lists the cassettes of a folder by their file names.

A library may hold 100,000 of them, so paths are plain strings here: a `Path` is created only
when one file is requested.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from llm_proxy.cassette.model import DEFAULT_SESSION
from llm_proxy.errors import UsageError

_TAKE_FILE_NAME: Final = re.compile(r"([0-9a-f]{16})-([1-9]\d{0,8})\.jsonl")
_SUFFIX: Final = ".jsonl"

TakePaths = dict[str, dict[str, dict[int, str]]]
"""Paths by session, by the first 16 digits of the key, and by take number."""


@dataclass(frozen=True, slots=True)
class TakeFile:
    """One cassette file and what its name and folder give: session, key prefix, take number."""

    path: Path
    session: str
    key_prefix: str
    number: int


@dataclass(frozen=True, slots=True)
class ScannedLibrary:
    """The files found in a library's folder."""

    take_paths: TakePaths
    strays: list[str]
    """Paths of the cassettes whose names hold no key and take number."""


def scan_library(root: Path) -> ScannedLibrary:
    """The files of a library.

    Raises `UsageError` if it cannot be read, or two files have the same take number and key.
    """
    takes: TakePaths = {}
    strays: list[str] = []
    prefix_chars = len("./") if str(root) == "." else 0  # as `Path` drops it
    for session, entry in _walk_by_session(str(root)):
        path = entry.path[prefix_chars:]
        match = _TAKE_FILE_NAME.fullmatch(entry.name)
        if match is None:
            strays.append(path)
            continue
        number = int(match[2])
        paths_by_number = takes.setdefault(session, {}).setdefault(match[1], {})
        if paths_by_number.setdefault(number, path) is not path:
            raise UsageError(
                f"two files are take {number} of one key: {paths_by_number[number]} and {path}: "
                "delete or rename one of them"
            )
    return ScannedLibrary(takes, strays)


def sort_paths(paths: list[str]) -> list[str]:
    """Paths sorted as `Path` objects are: folder by folder."""
    return sorted(paths, key=lambda path: path.split("/"))


def parse_take_path(root: Path, path: Path) -> TakeFile | None:
    """A library file's session, key prefix and take number; None if its name is not a take's."""
    match = _TAKE_FILE_NAME.fullmatch(path.name)
    return match and TakeFile(path, session_of_path(root, path), match[1], int(match[2]))


def session_of_path(root: Path, path: Path) -> str:
    """The session of a library file, from its top folder."""
    return _session_of_folder(path.relative_to(root).parts[0])


def walk_cassettes(root: Path) -> Iterator[Path]:
    """Yield the regular `.jsonl` files below `root`, links not followed, in a stable order.

    Raises `UsageError` if it cannot be read.
    """
    for entry in sorted(_list_entries(str(root)), key=lambda entry: entry.name):
        if _is_visible_folder(entry):
            yield from walk_cassettes(Path(entry.path))
        elif _is_cassette(entry):
            yield Path(entry.path)


def _walk_by_session(root: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
    pending_folders = [(root, "")]
    while pending_folders:
        folder, session = pending_folders.pop()
        for entry in _list_entries(folder):
            if _is_cassette(entry):
                yield session or DEFAULT_SESSION, entry
            elif _is_visible_folder(entry):
                pending_folders.append((entry.path, session or _session_of_folder(entry.name)))


def _session_of_folder(folder_name: str) -> str:
    return (
        folder_name[1:] if folder_name.startswith("@") and len(folder_name) > 1 else DEFAULT_SESSION
    )


def _is_cassette(entry: os.DirEntry[str]) -> bool:
    name = entry.name
    return (
        name.endswith(_SUFFIX) and not name.startswith(".") and entry.is_file(follow_symlinks=False)
    )


def _is_visible_folder(entry: os.DirEntry[str]) -> bool:
    return not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False)


def _list_entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except FileNotFoundError:
        return []
    except NotADirectoryError:
        raise UsageError(f"{folder} is not a folder: give --cassettes a folder") from None
    except OSError as error:
        raise UsageError(f"{folder} cannot be read: {error.strerror}") from None
