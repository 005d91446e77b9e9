"""Finds a cassette by its path, or by the beginning of its name or key."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from llm_proxy import display
from llm_proxy.cli.library.cassettes import name_in_library
from llm_proxy.errors import CassetteError, UsageError
from llm_proxy.shell.library.library import Library, cassette_files

_KEY: Final = re.compile(r"[0-9a-f]{17,64}")
"""More of a key than a file's name holds."""
_NAMED: Final = 16
"""Digits of the key in a file's name."""
_SHOWN: Final = 8
"""Candidates that a message names."""


def find_cassette(library: Library, name: str) -> Path:
    """The file of the cassette that `name` stands for.

    A path wins, then a file of exactly this name in the library, then the only one whose name,
    path within the library, or key begins so.  Raises `UsageError` that says which ones do, or
    which is nearest.
    """
    for path in (Path(name), library.root / name):
        if path.is_file():
            return path
    if name and Path(name).is_dir():
        shown = display.shell_word(name)
        raise UsageError(f"{shown} is a folder: llm-proxy ls --cassettes {shown} lists it")
    files = list(cassette_files(library.root))
    if not files:
        raise UsageError(
            f"{library.root} holds no cassettes: record one with llm-proxy record, or give the "
            "path of a file"
        )
    found = [path for path in files if name in {path.name, path.stem}]
    found = found or list(_files_beginning_with(library, files, name))
    if len(found) == 1:
        return found[0]
    raise UsageError(
        _ambiguous_name_error(library, name, found)
        if found
        else _nearest_names(library, files, name)
    )


def _files_beginning_with(library: Library, files: list[Path], name: str) -> Iterator[Path]:
    """The files whose name or path within the library, or whose key, begins with `name`."""
    if _KEY.fullmatch(name):
        for path in files:
            if path.name.startswith(name[:_NAMED]) and _key_of_file(library, path).startswith(name):
                yield path
        return
    for path in files:
        if name and (path.name.startswith(name) or name_in_library(library, path).startswith(name)):
            yield path


def _key_of_file(library: Library, path: Path) -> str:
    """The key of a file; empty where it cannot be read."""
    try:
        return library.load_cassette(path).meta.key
    except CassetteError:
        return ""


def _ambiguous_name_error(library: Library, name: str, found: list[Path]) -> str:
    names = [display.escape_path(name_in_library(library, path)) for path in found]
    more = f", and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return (
        f"{name!r} is the beginning of {len(names)} cassettes: {', '.join(names[:_SHOWN])}{more}; "
        "give more of the name"
    )


def _nearest_names(library: Library, files: list[Path], name: str) -> str:
    names: dict[str, str] = {}
    for path in files:
        full = name_in_library(library, path)
        names |= {path.stem: full, path.name: full, full: full}
    near = difflib.get_close_matches(name, names, 1, cutoff=0.3)
    hint = f"nearest is {display.escape_path(names[near[0]])}; " if near else ""
    return (
        f"no cassette {name!r} in {library.root}: {hint}llm-proxy ls lists what there is, and a "
        "path works too"
    )
