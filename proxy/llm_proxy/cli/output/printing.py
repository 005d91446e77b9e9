"""Prints styled text for people, and JSON.

Text is printed as pieces of `StyledText`, each of which is escaped, so that no recorded control
sequence reaches the terminal.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import click
import orjson

from llm_proxy import display
from llm_proxy.errors import LlmProxyError, UsageError
from llm_proxy.exchange import Outcome

_STYLES: Final[dict[str, dict[str, Any]]] = {
    "": {},
    "bold": {"bold": True},
    "dim": {"dim": True},
    "good": {"fg": "green"},
    "doubtful": {"fg": "yellow"},
    "bad": {"fg": "red"},
    "bar": {"fg": "cyan"},
}
"""The arguments of `click.style` for each style."""

_TERMINAL_SAFE_TEXT: Final = re.compile(
    r"(?:[^\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]|\r\n)*"
)
"""Text without control characters and without characters that change the writing direction."""
_MIN_COLUMNS: Final = 40
_COLUMNS_WITHOUT_TERMINAL: Final = 100
"""Columns that are assumed where stdout is not a terminal."""


class StyledText(NamedTuple):
    """A piece of a line, and the name of its style; an empty name is plain text."""

    text: str
    style: str = ""


Line = tuple[StyledText, ...]


def styled_line(*pieces: str | StyledText) -> Line:
    """A line of plain and styled pieces."""
    return tuple(StyledText(piece) if isinstance(piece, str) else piece for piece in pieces)


def styled_outcome(outcome: Outcome) -> StyledText:
    """An outcome as text, styled by how good it is."""
    if not outcome.is_complete:
        return StyledText(str(outcome), "bad")
    return StyledText(str(outcome), "good" if outcome.is_proven else "doubtful")


def is_stdout_terminal() -> bool:
    """Whether stdout is a terminal that is not `TERM=dumb`."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def is_stdout_coloured() -> bool:
    """Whether to style stdout: on a terminal, unless NO_COLOR is set."""
    return is_stdout_terminal() and not os.environ.get("NO_COLOR")


def is_stdout_ascii_only() -> bool:
    """Whether the encoding of stdout is not a Unicode one: ASCII, or a small code page."""
    return not (sys.stdout.encoding or "").lower().startswith("utf")


def terminal_columns() -> int:
    """The width of stdout in columns, at least `_MIN_COLUMNS`."""
    if not sys.stdout.isatty():
        return _COLUMNS_WITHOUT_TERMINAL
    return max(shutil.get_terminal_size().columns, _MIN_COLUMNS)


def print_lines(lines: Iterable[Line]) -> None:
    """Print lines on stdout."""
    coloured = is_stdout_coloured()
    for line in lines:
        text = "".join(_apply_style(span, coloured=coloured) for span in line)
        _write_stdout_text(text.rstrip(" ") + "\n")


def print_note(text: str) -> None:
    """Print one sentence for people on stderr."""
    click.echo(f"llm-proxy: {display.escape_block(text)}", err=True)


def print_json(document: Any) -> None:
    """Print one JSON document on stdout, indented and escaped."""
    encoded = orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    write_stdout_bytes(display.escape_json(encoded.decode()).encode())


def write_stdout_bytes(data: bytes) -> None:
    """Write bytes to stdout as they are."""
    with _translate_stdout_errors():
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def write_terminal_safe_bytes(data: bytes, label: str) -> None:
    """Write bytes to stdout as they are; `label` names them in the error.

    Raises `UsageError` where stdout is a terminal and the bytes hold control characters.
    """
    if (
        sys.stdout.isatty()
        and _TERMINAL_SAFE_TEXT.fullmatch(data.decode("utf-8", "replace")) is None
    ):
        raise UsageError(
            f"{label} holds control characters that a terminal obeys: write it to a file or a "
            "pipe, or see show --messages, which escapes them"
        )
    write_stdout_bytes(data)


def _apply_style(piece: StyledText, *, coloured: bool) -> str:
    text = display.escape_block(piece.text)
    wanted = coloured and piece.style and not text.isspace()
    return click.style(text, **_STYLES[piece.style]) if wanted else text


def _write_stdout_text(text: str) -> None:
    """Write text in the encoding of stdout; characters that it lacks as escapes."""
    encoding = sys.stdout.encoding or "ascii"
    with _translate_stdout_errors():
        click.echo(text.encode(encoding, "backslashreplace").decode(encoding), nl=False, color=True)


@contextmanager
def _translate_stdout_errors() -> Iterator[None]:
    """Turn an `OSError` of a write to stdout, such as a full disk, into `LlmProxyError`.

    EPIPE passes: click handles it.
    """
    try:
        yield
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise
        _discard_buffered_output()
        raise LlmProxyError(
            f"stdout cannot be written, so what it has is not all: {error.strerror}"
        ) from error


def _discard_buffered_output() -> None:
    """Redirect stdout to the null device: at exit, Python would fail to flush it once more."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(devnull, sys.stdout.fileno())
    finally:
        os.close(devnull)
