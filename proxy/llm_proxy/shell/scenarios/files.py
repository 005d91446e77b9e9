"""Finds and reads scenario files.

In a folder these are `*.yaml`, `*.yml` and `*.json` at any depth, in the order of their paths.
Links are followed; names that begin with a dot, or end in `.schema.json`, are skipped.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from llm_proxy.display import path_as_unicode_text
from llm_proxy.errors import UsageError
from llm_proxy.scenario.documents.loading import (
    MAX_FILE_BYTES,
    LoadedScenarios,
    merge_loaded,
    parse_scenario_file,
)
from llm_proxy.scenario.documents.mistakes import ROOT_PATH, DocumentMistake

SCENARIO_SUFFIXES: Final = (".yaml", ".yml", ".json")
_SCHEMA_SUFFIX: Final = ".schema.json"
"""The suffix of JSON Schemas, which may be in the same folder as the scenarios."""

_FileIdentity = tuple[int, int]
"""Device and inode."""


@dataclass(frozen=True, slots=True)
class FileStamp:
    """File metadata that changes when the content does."""

    modified_ns: int
    """The mtime in ns."""
    size_bytes: int
    inode: int


@dataclass(frozen=True, slots=True)
class ScannedFile:
    """A file found by a scan; without a stamp it cannot be read, for the given `reason`."""

    path: Path
    stamp: FileStamp | None
    unreadable_reason: str = ""


def scan_files(paths: Sequence[Path]) -> tuple[ScannedFile, ...]:
    """The scenario files at and below the paths.

    Raises `UsageError` for a path that does not exist, cannot be read or has no scenario files.
    """
    files_by_path: dict[Path, ScannedFile] = {}
    for path in paths:
        scanned = _files_of_path(path)
        if not scanned:
            names = " ".join(f"*{suffix}" for suffix in SCENARIO_SUFFIXES)
            raise UsageError(
                f"{path_as_unicode_text(path)} holds no scenarios: there is no {names} below it"
            )
        files_by_path |= {scanned_file.path: scanned_file for scanned_file in scanned}
    return tuple(files_by_path.values())


def read_files(
    files: Sequence[ScannedFile], loaded_before: Mapping[ScannedFile, LoadedScenarios]
) -> dict[ScannedFile, LoadedScenarios]:
    """The content of each file; those in `loaded_before` are not read again."""
    return {
        file: loaded_before[file] if file in loaded_before else _read_file(file) for file in files
    }


def load_scenarios(paths: Sequence[Path]) -> LoadedScenarios:
    """Load all scenarios at and below the paths.  Raises `UsageError` as `scan_files` does."""
    return merge_loaded(read_files(scan_files(paths), {}).values())


def _files_of_path(path: Path) -> list[ScannedFile]:
    name = path_as_unicode_text(path)
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


def _files_in_folder(folder: Path, ancestors: tuple[_FileIdentity, ...]) -> Iterator[ScannedFile]:
    """The files below a folder; `ancestors` are the folder and its parents, to detect loops."""
    for path in list(folder.iterdir()):
        if path.name.startswith("."):
            continue
        if not path.is_dir():
            is_schema = path.name.endswith(_SCHEMA_SUFFIX)
            if path.suffix.lower() in SCENARIO_SUFFIXES and not is_schema:
                yield _scan_file(path)
            continue
        try:
            identity = _file_identity(path.stat())
            if identity in ancestors:
                reason = "this link leads back to a folder that it lies in: remove it"
                yield ScannedFile(path, None, reason)
            else:
                yield from _files_in_folder(path, (*ancestors, identity))
        except OSError as error:
            yield ScannedFile(path, None, f"the folder cannot be read: {error.strerror}")


def _scan_file(path: Path) -> ScannedFile:
    try:
        status = path.stat()
    except FileNotFoundError:
        return ScannedFile(path, None, "this link leads to nothing: remove it")
    except OSError as error:
        return ScannedFile(path, None, f"the file cannot be read: {error.strerror}")
    if not stat.S_ISREG(status.st_mode):
        reason = "this is no regular file: give it another name, or remove it"
        return ScannedFile(path, None, reason)
    return ScannedFile(path, FileStamp(status.st_mtime_ns, status.st_size, status.st_ino))


def _file_identity(status: os.stat_result) -> _FileIdentity:
    return status.st_dev, status.st_ino


def _read_file(file: ScannedFile) -> LoadedScenarios:
    name, reason = path_as_unicode_text(file.path), file.unreadable_reason
    if file.stamp is not None:
        try:
            with file.path.open("rb") as stream:
                return parse_scenario_file(name, stream.read(MAX_FILE_BYTES + 1))
        except OSError as error:
            reason = f"the file cannot be read: {error.strerror}"
    return LoadedScenarios(mistakes=(DocumentMistake(name, 0, 0, ROOT_PATH, reason),))
