"""Finds and reads scenario files.

A folder's are those named `*.yaml`, `*.yml` and `*.json` anywhere below it, in the order of their
paths.  Links are followed; names that begin with a dot, or end in `.schema.json`, are passed over.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from llm_proxy.display import escape_path
from llm_proxy.errors import UsageError
from llm_proxy.scenario.documents.loading import (
    MAX_FILE,
    LoadedScenarios,
    load_file,
    merge_loaded,
    unreadable_file,
)

SUFFIXES: Final = (".yaml", ".yml", ".json")
_SCHEMA: Final = ".schema.json"
"""How the name of a JSON Schema ends, which may lie beside the scenarios that it is of."""

_Identity = tuple[int, int]
"""Device and inode."""


@dataclass(frozen=True, slots=True)
class FileStamp:
    """What changes with the content of a file."""

    modified_ns: int
    """In ns."""
    size: int
    inode: int


@dataclass(frozen=True, slots=True)
class ScannedFile:
    """A file as it was met; without a stamp it cannot be read, and `why` says why not."""

    path: Path
    stamp: FileStamp | None
    reason: str = ""


def scan_files(paths: Sequence[Path]) -> tuple[ScannedFile, ...]:
    """The files that the paths stand for.

    Raises `UsageError` where one stands for nothing that could be read.
    """
    found: dict[Path, ScannedFile] = {}
    for path in paths:
        seen = _files_of_path(path)
        if not seen:
            names = " ".join(f"*{suffix}" for suffix in SUFFIXES)
            raise UsageError(
                f"{escape_path(path)} holds no scenarios: there is no {names} below it"
            )
        found |= {scanned_file.path: scanned_file for scanned_file in seen}
    return tuple(found.values())


def read_files(
    files: Sequence[ScannedFile], known: Mapping[ScannedFile, LoadedScenarios]
) -> dict[ScannedFile, LoadedScenarios]:
    """What each file holds; those that are known already are not read again."""
    return {file: known[file] if file in known else _read_file(file) for file in files}


def load_all(paths: Sequence[Path]) -> LoadedScenarios:
    """What the paths stand for, all of it.  Raises `UsageError` as `survey` does."""
    return merge_loaded(read_files(scan_files(paths), {}).values())


def _files_of_path(path: Path) -> list[ScannedFile]:
    name = escape_path(path)
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            return sorted(
                _files_in_folder(path, (_file_identity(status),)),
                key=lambda scanned_file: scanned_file.path,
            )
    except FileNotFoundError:
        raise UsageError(
            f"there is no file or folder {name}: give --scenarios one that there is"
        ) from None
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}") from None
    if not stat.S_ISREG(status.st_mode):
        raise UsageError(f"{name} is neither a file nor a folder: give --scenarios one of these")
    return [_scan_file(path)]


def _files_in_folder(folder: Path, within: tuple[_Identity, ...]) -> Iterator[ScannedFile]:
    """The files below a folder; `within` is it, and the folders that it lies in."""
    for path in list(folder.iterdir()):
        if path.name.startswith("."):
            continue
        if path.is_dir():
            yield from _scan_subfolder(path, within)
        elif path.suffix.lower() in SUFFIXES and not path.name.endswith(_SCHEMA):
            yield _scan_file(path)


def _scan_subfolder(folder: Path, within: tuple[_Identity, ...]) -> Iterator[ScannedFile]:
    try:
        identity = _file_identity(folder.stat())
        if identity in within:
            yield ScannedFile(
                folder, None, "this link leads back to a folder that it lies in: remove it"
            )
            return
        yield from _files_in_folder(folder, (*within, identity))
    except OSError as error:
        yield ScannedFile(folder, None, f"the folder cannot be read: {error.strerror}")


def _scan_file(path: Path) -> ScannedFile:
    try:
        stat_result = path.stat()
    except FileNotFoundError:
        return ScannedFile(path, None, "this link leads to nothing: remove it")
    except OSError as error:
        return ScannedFile(path, None, _unreadable_reason(error))
    if not stat.S_ISREG(stat_result.st_mode):
        return ScannedFile(
            path, None, "this is no regular file: give it another name, or remove it"
        )
    return ScannedFile(
        path, FileStamp(stat_result.st_mtime_ns, stat_result.st_size, stat_result.st_ino)
    )


def _file_identity(stat_result: os.stat_result) -> _Identity:
    return stat_result.st_dev, stat_result.st_ino


def _read_file(file: ScannedFile) -> LoadedScenarios:
    name = escape_path(file.path)
    if file.stamp is None:
        return unreadable_file(name, file.reason)
    try:
        with file.path.open("rb") as content:
            return load_file(name, content.read(MAX_FILE + 1))
    except OSError as error:
        return unreadable_file(name, _unreadable_reason(error))


def _unreadable_reason(error: OSError) -> str:
    return f"the file cannot be read: {error.strerror}"
