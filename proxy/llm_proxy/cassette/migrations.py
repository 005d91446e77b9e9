"""Migrates the lines of older formats, one step per format.

A step takes the parsed lines of format N and returns those of N + 1.  Files on disk stay as
they are: a migration happens in memory, whenever the file is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from llm_proxy.cassette.model import FORMAT_VERSION
from llm_proxy.errors import CassetteError, CassetteTooNew, printable_excerpt

Lines = list[dict[str, Any]]

MIGRATIONS: Final[Mapping[int, Callable[[Lines], Lines]]] = MappingProxyType({})
"""The migration from each format to the next.  Format 1 is the first."""


def migrate_lines(file: str, lines: Lines) -> Lines:
    """The lines in the current format.

    Raises `CassetteTooNew` for a newer format and `CassetteError` if there is no format number.
    """
    version = lines[0].get("cassette") if lines else None
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise CassetteError(file, 1, 'not a cassette: line 1 has no "cassette" format number')
    if version > FORMAT_VERSION:
        raise CassetteTooNew(
            file,
            1,
            f"format {version} is newer than this tool reads (up to {FORMAT_VERSION}); it was "
            "written by "
            f"{printable_excerpt(str(lines[0].get('tool', 'a later version')), 60)}: upgrade "
            "llm-proxy",
        )
    for from_version in range(version, FORMAT_VERSION):
        lines = MIGRATIONS[from_version](lines)
    return lines
