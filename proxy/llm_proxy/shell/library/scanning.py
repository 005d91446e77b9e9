"""Lists the cassettes of a folder by their file names.

A library may hold 100,000 of them, so what is done for each is done with plain strings: a
`CountedPath` is made when somebody asks for one file.
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

_NAME: Final = re.compile(r"([0-9a-f]{16})-([1-9]\d{0,8})\.jsonl")
_SUFFIX: Final = ".jsonl"

Takes = dict[str, dict[str, dict[int, str]]]
"""Files by session, by the first digits of their keys, and by their numbers."""


@dataclass(frozen=True, slots=True)
class TakeFile:
    """One cassette file, as its name describes it."""

    path: Path
    session: str
    key_prefix: str
    number: int


@dataclass(frozen=True, slots=True)
class ScannedLibrary:
    """What a look through a library's folder found."""

    takes: Takes
    strays: list[str]
    """The cassettes whose names say nothing."""


def scan_library(root: Path) -> ScannedLibrary:
    """Look through a library.

    Raises `UsageError` where it cannot be read, or two files claim to be the same take.
    """
    takes: Takes = {}
    strays: list[str] = []
    begin = len("./") if str(root) == "." else 0  # which a `CountedPath` is without
    for session, entry in _cassettes_below(str(root)):
        path = entry.path[begin:]
        match = _NAME.fullmatch(entry.name)
        if match is None:
            strays.append(path)
            continue
        number = int(match[2])
        same = takes.setdefault(session, {}).setdefault(match[1], {})
        if same.setdefault(number, path) is not path:
            raise UsageError(
                f"two files are take {number} of one key: {same[number]} and {path}: "
                "delete or rename one of them"
            )
    return ScannedLibrary(takes, strays)


def sort_paths(paths: list[str]) -> list[str]:
    """Paths sorted as `CountedPath`s are: folder by folder."""
    return sorted(paths, key=lambda path: path.split("/"))


def take_of_name(root: Path, path: Path) -> TakeFile | None:
    """What the name and the folder of a library's file say; None where the name says nothing."""
    match = _NAME.fullmatch(path.name)
    return match and TakeFile(path, session_of_path(root, path), match[1], int(match[2]))


def session_of_path(root: Path, path: Path) -> str:
    """The session in whose folder a library's file lies."""
    return _session_of_folder(path.relative_to(root).parts[0])


def cassette_files(root: Path) -> Iterator[Path]:
    """The regular `.jsonl` files below `root`, links not followed, in a stable order.

    Raises `UsageError` where it cannot be read.
    """
    for entry in sorted(_sorted_entries(str(root)), key=lambda entry: entry.name):
        if _is_folder(entry):
            yield from cassette_files(Path(entry.path))
        elif _is_cassette(entry):
            yield Path(entry.path)


def _cassettes_below(root: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
    waiting = [(root, "")]
    while waiting:
        folder, session = waiting.pop()
        for entry in _sorted_entries(folder):
            if _is_cassette(entry):
                yield session or DEFAULT_SESSION, entry
            elif _is_folder(entry):
                waiting.append((entry.path, session or _session_of_folder(entry.name)))


def _session_of_folder(top: str) -> str:
    return top[1:] if top.startswith("@") and len(top) > 1 else DEFAULT_SESSION


def _is_cassette(entry: os.DirEntry[str]) -> bool:
    name = entry.name
    return (
        name.endswith(_SUFFIX) and not name.startswith(".") and entry.is_file(follow_symlinks=False)
    )


def _is_folder(entry: os.DirEntry[str]) -> bool:
    return not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False)


def _sorted_entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except FileNotFoundError:
        return []
    except NotADirectoryError:
        raise UsageError(f"{folder} is not a folder: give --cassettes a folder") from None
    except OSError as error:
        raise UsageError(f"{folder} cannot be read: {error.strerror}") from None
