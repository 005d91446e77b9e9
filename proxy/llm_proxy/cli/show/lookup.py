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
from llm_proxy.shell.library.library import Library, walk_cassettes

_LONG_KEY_PREFIX: Final = re.compile(r"[0-9a-f]{17,64}")
"""The beginning of a key that is longer than the digits in a file's name."""
_KEY_DIGITS_IN_NAME: Final = 16
"""Hex digits of the key in a file's name."""
_MAX_SHOWN_CANDIDATES: Final = 8
"""Candidates that an error message names at most."""


def find_cassette_path(library: Library, name: str) -> Path:
    """The file of the cassette that `name` identifies.

    In order: a path, a file of exactly this name in the library, the only file whose name, path
    within the library, or key begins with it.  Raises `UsageError` that lists the candidates or
    the nearest name.
    """
    for path in (Path(name), library.root / name):
        if path.is_file():
            return path
    if name and Path(name).is_dir():
        shown = display.shell_quoted_path(name)
        raise UsageError(f"{shown} is a folder: llm-proxy ls --cassettes {shown} lists it")
    files = list(walk_cassettes(library.root))
    if not files:
        raise UsageError(
            f"{library.root} holds no cassettes: record one with llm-proxy record, or give the "
            "path of a file"
        )
    found = [path for path in files if name in {path.name, path.stem}]
    found = found or list(_files_with_prefix(library, files, name))
    if len(found) == 1:
        return found[0]
    raise UsageError(
        _ambiguous_name_message(library, name, found)
        if found
        else _unknown_name_message(library, files, name)
    )


def _files_with_prefix(library: Library, files: list[Path], prefix: str) -> Iterator[Path]:
    """The files whose name or path within the library, or whose key, begins with `prefix`."""
    if _LONG_KEY_PREFIX.fullmatch(prefix):
        for path in files:
            if path.name.startswith(prefix[:_KEY_DIGITS_IN_NAME]) and _key_of_file(
                library, path
            ).startswith(prefix):
                yield path
        return
    for path in files:
        if prefix and (
            path.name.startswith(prefix) or name_in_library(library, path).startswith(prefix)
        ):
            yield path


def _key_of_file(library: Library, path: Path) -> str:
    """The key of a file; empty where it cannot be read."""
    try:
        return library.load_cassette(path).meta.key
    except CassetteError:
        return ""


def _ambiguous_name_message(library: Library, name: str, found: list[Path]) -> str:
    names = [display.path_as_unicode_text(name_in_library(library, path)) for path in found]
    more = (
        f", and {len(names) - _MAX_SHOWN_CANDIDATES} more"
        if len(names) > _MAX_SHOWN_CANDIDATES
        else ""
    )
    return (
        f"{name!r} is the beginning of {len(names)} cassettes: "
        f"{', '.join(names[:_MAX_SHOWN_CANDIDATES])}{more}; "
        "give more of the name"
    )


def _unknown_name_message(library: Library, files: list[Path], name: str) -> str:
    names: dict[str, str] = {}
    for path in files:
        full = name_in_library(library, path)
        names |= {path.stem: full, path.name: full, full: full}
    near = difflib.get_close_matches(name, names, 1, cutoff=0.3)
    hint = f"nearest is {display.path_as_unicode_text(names[near[0]])}; " if near else ""
    return (
        f"no cassette {name!r} in {library.root}: {hint}llm-proxy ls lists what there is, and a "
        "path works too"
    )
