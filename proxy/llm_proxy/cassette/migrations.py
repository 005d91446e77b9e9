"""Brings the lines of an older format up to date, one numbered step a format.

A step takes the parsed lines of format N and gives those of N + 1.  Files on disk stay as
they are: a migration happens in memory, whenever the file is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from llm_proxy.cassette.model import FORMAT
from llm_proxy.errors import CassetteError, CassetteTooNew, printable

Lines = list[dict[str, Any]]

STEPS: Final[Mapping[int, Callable[[Lines], Lines]]] = MappingProxyType({})
"""From which format, and how.  Format 1 is the first."""


def migrate(file: str, lines: Lines) -> Lines:
    """The same lines in the present format.

    Raises `CassetteTooNew` for a format from the future, `CassetteError` for none at all.
    """
    version = lines[0].get("cassette") if lines else None
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise CassetteError(file, 1, 'not a cassette: line 1 has no "cassette" format number')
    if version > FORMAT:
        raise CassetteTooNew(
            file,
            1,
            f"format {version} is newer than this tool reads (up to {FORMAT}); it was written by "
            f"{printable(str(lines[0].get('tool', 'a later version')), 60)}: upgrade llm-proxy",
        )
    for step in range(version, FORMAT):
        lines = STEPS[step](lines)
    return lines
