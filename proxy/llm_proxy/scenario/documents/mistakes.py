"""Positions in scenario files, mistakes at them, and what validators find."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Generic, Literal, TypeVar

from llm_proxy.errors import printable_excerpt

T_co = TypeVar("T_co", covariant=True)

ROOT_PATH: Final = "$"

_PLAIN_NAME: Final = re.compile(r"[A-Za-z_$][\w$-]*")


@dataclass(frozen=True, slots=True)
class DocumentMistake:
    """A mistake or a warning at one position of a file."""

    file: str
    line: int
    """From 1; 0 for the file as a whole."""
    column: int
    """In characters, from 1."""
    json_path: str
    """A JSONPath in the names of the file: `$.turns[1].toolCalls`."""
    message: str
    fails_lint: bool = True
    """Whether it makes `lint` fail; False for a warning only."""

    def __str__(self) -> str:
        file = printable_excerpt(self.file, 1000)
        if not self.line:
            return f"{file}: {printable_excerpt(self.message, 1000)}"
        return (
            f"{file}:{self.line}:{self.column}: {printable_excerpt(self.json_path, 500)}: "
            f"{printable_excerpt(self.message, 1000)}"
        )


@dataclass(frozen=True, slots=True)
class Located(Generic[T_co]):
    """A value of a file with its position."""

    value: T_co
    file: str
    line: int
    column: int
    json_path: str


@dataclass(frozen=True, slots=True)
class StructFinding:
    """An error or a doubtful value in a struct."""

    path: tuple[str | int, ...]
    """Relative to the struct, in canonical names: `("tool_calls", 1)`."""
    message: str
    severity: Literal["refused", "lint", "warning"] = "refused"
    """`refused` documents are not loaded; others are, with a warning; `lint` makes `lint` fail."""


def child_path(path: str, step: str | int) -> str:
    """The path of a field or an item of the value at `path`."""
    if isinstance(step, int):
        return f"{path}[{step}]"
    if _PLAIN_NAME.fullmatch(step):
        return f"{path}.{step}"
    escaped = step.replace("\\", "\\\\").replace("'", "\\'")
    return f"{path}['{escaped}']"


def join_choices(choices: Sequence[str]) -> str:
    """Choices as text: `a`, `a or b`, `a, b or c`."""
    *others, last = choices
    return f"{', '.join(others)} or {last}" if others else last


def quote_text(text: str, max_chars: int = 40) -> str:
    """A text of the file for a message: in quotes, escaped, and truncated."""
    return f'"{printable_excerpt(text, max_chars)}"'
