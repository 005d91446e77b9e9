"""A mistake in a scenario file, and its place."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from llm_proxy.errors import printable

ROOT: Final = "$"

_PLAIN: Final = re.compile(r"[A-Za-z_$][\w$-]*")


@dataclass(frozen=True, slots=True)
class DocumentMistake:
    """One thing that is wrong, or doubtful, at one place."""

    file: str
    line: int
    """Counted from 1; 0 where the file as a whole is meant."""
    column: int
    """In characters, counted from 1."""
    path: str
    """As a JSONPath, in the names that the file has: `$.turns[1].toolCalls`."""
    message: str
    fails_lint: bool = True
    """Whether `lint` fails over it; False for a mere warning."""

    def __str__(self) -> str:
        place = printable(self.file, 1000)
        if not self.line:
            return f"{place}: {printable(self.message, 1000)}"
        return (
            f"{place}:{self.line}:{self.column}: {printable(self.path, 500)}: "
            f"{printable(self.message, 1000)}"
        )


def child_path(path: str, step: str | int) -> str:
    """The path of a field or an item of what stands at `path`."""
    if isinstance(step, int):
        return f"{path}[{step}]"
    if _PLAIN.fullmatch(step):
        return f"{path}.{step}"
    escaped = step.replace("\\", "\\\\").replace("'", "\\'")
    return f"{path}['{escaped}']"


def join_choices(words: Sequence[str]) -> str:
    """A choice in words: `a`, `a or b`, `a, b or c`."""
    *others, last = words
    return f"{', '.join(others)} or {last}" if others else last


def quote_text(text: str, limit: int = 40) -> str:
    """A text of the file as a message shows it: in quotes, and cut where it is long."""
    return f'"{printable(text, limit)}"'
