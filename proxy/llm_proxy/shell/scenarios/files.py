"""The scenario files of a path: which there are, and what they hold.

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

from llm_proxy.display import path_text
from llm_proxy.errors import UsageError
from llm_proxy.scenario.documents.loading import MAX_FILE, Loaded, load, together, unreadable

SUFFIXES: Final = (".yaml", ".yml", ".json")
_SCHEMA: Final = ".schema.json"
"""How the name of a JSON Schema ends, which may lie beside the scenarios that it is of."""

_Identity = tuple[int, int]
"""Device and inode."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """What changes with the content of a file."""

    changed: int
    """In ns."""
    size: int
    inode: int


@dataclass(frozen=True, slots=True)
class Seen:
    """A file as it was met; without a stamp it cannot be read, and `why` says why not."""

    path: Path
    stamp: Stamp | None
    why: str = ""


def survey(paths: Sequence[Path]) -> tuple[Seen, ...]:
    """The files that the paths stand for.

    Raises `UsageError` where one stands for nothing that could be read.
    """
    found: dict[Path, Seen] = {}
    for path in paths:
        seen = _root(path)
        if not seen:
            names = " ".join(f"*{it}" for it in SUFFIXES)
            raise UsageError(f"{path_text(path)} holds no scenarios: there is no {names} below it")
        found |= {it.path: it for it in seen}
    return tuple(found.values())


def read(files: Sequence[Seen], known: Mapping[Seen, Loaded]) -> dict[Seen, Loaded]:
    """What each file holds; those that are known already are not read again."""
    return {it: known[it] if it in known else _read(it) for it in files}


def loaded(paths: Sequence[Path]) -> Loaded:
    """What the paths stand for, all of it.  Raises `UsageError` as `survey` does."""
    return together(read(survey(paths), {}).values())


def _root(path: Path) -> list[Seen]:
    """The files of a path that somebody gave."""
    name = path_text(path)
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            return sorted(_below(path, (_identity(status),)), key=lambda it: it.path)
    except FileNotFoundError:
        raise UsageError(
            f"there is no file or folder {name}: give --scenarios one that there is"
        ) from None
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}") from None
    if not stat.S_ISREG(status.st_mode):
        raise UsageError(f"{name} is neither a file nor a folder: give --scenarios one of these")
    return [_seen(path)]


def _below(folder: Path, within: tuple[_Identity, ...]) -> Iterator[Seen]:
    """The files below a folder; `within` is it, and the folders that it lies in."""
    for path in list(folder.iterdir()):
        if path.name.startswith("."):
            continue
        if path.is_dir():
            yield from _inner(path, within)
        elif path.suffix.lower() in SUFFIXES and not path.name.endswith(_SCHEMA):
            yield _seen(path)


def _inner(folder: Path, within: tuple[_Identity, ...]) -> Iterator[Seen]:
    try:
        identity = _identity(folder.stat())
        if identity in within:
            yield Seen(folder, None, "this link leads back to a folder that it lies in: remove it")
            return
        yield from _below(folder, (*within, identity))
    except OSError as error:
        yield Seen(folder, None, f"the folder cannot be read: {error.strerror}")


def _seen(path: Path) -> Seen:
    try:
        it = path.stat()
    except FileNotFoundError:
        return Seen(path, None, "this link leads to nothing: remove it")
    except OSError as error:
        return Seen(path, None, _unreadable(error))
    if not stat.S_ISREG(it.st_mode):
        return Seen(path, None, "this is no regular file: give it another name, or remove it")
    return Seen(path, Stamp(it.st_mtime_ns, it.st_size, it.st_ino))


def _identity(it: os.stat_result) -> _Identity:
    return it.st_dev, it.st_ino


def _read(file: Seen) -> Loaded:
    name = path_text(file.path)
    if file.stamp is None:
        return unreadable(name, file.why)
    try:
        with file.path.open("rb") as content:
            return load(name, content.read(MAX_FILE + 1))
    except OSError as error:
        return unreadable(name, _unreadable(error))


def _unreadable(error: OSError) -> str:
    return f"the file cannot be read: {error.strerror}"
