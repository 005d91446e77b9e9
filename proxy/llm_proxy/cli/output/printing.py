"""Prints styled text for people, and JSON.

Text reaches the terminal as spans, and every span is escaped on its way out, so nothing that
was recorded can steer the terminal.
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
"""What a style looks like, in the words of `click.style`."""

_HARMLESS: Final = re.compile(
    r"(?:[^\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]|\r\n)*"
)
"""Text without characters that a terminal obeys, or that turn the direction of writing."""
_NARROWEST: Final = 40
_NO_TERMINAL: Final = 100
"""Columns that are assumed where the output is no terminal."""


class StyledText(NamedTuple):
    """A piece of a line."""

    text: str
    style: str = ""


Line = tuple[StyledText, ...]


def styled_line(*pieces: str | StyledText) -> Line:
    """A line of spans and plain text."""
    return tuple(StyledText(piece) if isinstance(piece, str) else piece for piece in pieces)


def styled_outcome(outcome: Outcome) -> StyledText:
    """An outcome, in its colour."""
    if not outcome.complete:
        return StyledText(str(outcome), "bad")
    return StyledText(str(outcome), "good" if outcome.proven else "doubtful")


def is_terminal() -> bool:
    """Whether stdout is a terminal that can do more than text."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def is_coloured() -> bool:
    """Whether styles are wanted on stdout: on a terminal, unless NO_COLOR is set."""
    return is_terminal() and not os.environ.get("NO_COLOR")


def is_ascii() -> bool:
    """Whether stdout takes nothing but ASCII, or a small code page."""
    return not (sys.stdout.encoding or "").lower().startswith("utf")


def terminal_columns() -> int:
    """How wide stdout is."""
    if not sys.stdout.isatty():
        return _NO_TERMINAL
    return max(shutil.get_terminal_size().columns, _NARROWEST)


def print_lines(lines: Iterable[Line]) -> None:
    """Print lines on stdout."""
    coloured = is_coloured()
    for line in lines:
        text = "".join(_apply_style(span, coloured=coloured) for span in line)
        _write_encodable(text.rstrip(" ") + "\n")


def print_note(text: str) -> None:
    """Print one sentence for people on stderr."""
    click.echo(f"llm-proxy: {display.escape_block(text)}", err=True)


def print_json(document: Any) -> None:
    """Print one JSON document on stdout, and nothing else there."""
    written = orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    write_bytes(display.escape_json(written.decode()).encode())


def write_bytes(data: bytes) -> None:
    """Write bytes to stdout as they are."""
    with _stdout_errors_reported():
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def write_bytes_safely(data: bytes, label: str) -> None:
    """Write bytes to stdout as they are.

    Raises `UsageError` where that is a terminal and they could harm it; `what` names them.
    """
    if sys.stdout.isatty() and _HARMLESS.fullmatch(data.decode("utf-8", "replace")) is None:
        raise UsageError(
            f"{label} holds control characters that a terminal obeys: write it to a file or a "
            "pipe, or see show --messages, which escapes them"
        )
    write_bytes(data)


def _apply_style(span: StyledText, *, coloured: bool) -> str:
    text = display.escape_block(span.text)
    wanted = coloured and span.style and not text.isspace()
    return click.style(text, **_STYLES[span.style]) if wanted else text


def _write_encodable(text: str) -> None:
    """Write what stdout's encoding can have; the rest as escapes."""
    encoding = sys.stdout.encoding or "ascii"
    with _stdout_errors_reported():
        click.echo(text.encode(encoding, "backslashreplace").decode(encoding), nl=False, color=True)


@contextmanager
def _stdout_errors_reported() -> Iterator[None]:
    """Where stdout is written: what cannot be is said in one sentence, as a full disk is.

    Raises `LlmProxyError`; that nobody reads any more is left to click.
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
    """Send what is still buffered nowhere: Python would fail on it once more at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, sys.stdout.fileno())
    finally:
        os.close(nowhere)
