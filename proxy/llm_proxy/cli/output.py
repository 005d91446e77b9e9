"""Output of all commands: styled lines, tables, progress, JSON and files.

Every piece of a line is escaped when it is printed, so that no recorded control sequence reaches
the terminal.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TextIO

import click
import orjson

from llm_proxy import display
from llm_proxy.errors import LlmProxyError, UsageError
from llm_proxy.exchange import Outcome
from llm_proxy.shell.private_files import private_opener

if TYPE_CHECKING:
    from typing import Self

    from rich.progress import Progress

_COLOURS: Final = {"good": "green", "doubtful": "yellow", "bad": "red", "bar": "cyan"}
"""The colours of styles; the others, `bold` and `dim`, are attributes of a terminal."""
_TERMINAL_SAFE_TEXT: Final = re.compile(
    r"(?:[^\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]|\r\n)*"
)
"""Text without control characters and without characters that change the writing direction."""
_MIN_COLUMNS: Final = 40
_COLUMNS_WITHOUT_TERMINAL: Final = 100
"""Columns that are assumed where stdout is not a terminal."""
_COLUMN_GAP: Final = 2
"""Spaces between two columns of a table."""
_MAX_SHOWN_LOSSES: Final = 8
"""How many losses are named."""


class StyledText(str):
    """A piece of a line, and its style: `good`, `doubtful`, `bad`, `bar`, `bold` or `dim`.

    An empty style is plain text, as is any other string.
    """

    __slots__ = ("style",)
    style: str

    def __new__(cls, text: str, style: str = "") -> Self:
        """`text` in this style."""
        piece = super().__new__(cls, text)
        piece.style = style
        return piece


Line = str | tuple[str, ...]
"""A line of output: plain text, a `StyledText`, or several of both."""


def styled_outcome(outcome: Outcome) -> StyledText:
    """An outcome as text, styled by how good it is."""
    if not outcome.is_complete:
        return StyledText(str(outcome), "bad")
    return StyledText(str(outcome), "good" if outcome.is_proven else "doubtful")


def is_stdout_terminal() -> bool:
    """Whether stdout is a terminal that is not `TERM=dumb`."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def is_stderr_terminal() -> bool:
    """Whether stderr is a terminal that is not `TERM=dumb`."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def is_stdout_ascii_only() -> bool:
    """Whether the encoding of stdout is not a Unicode one: ASCII, or a small code page."""
    return not (sys.stdout.encoding or "").lower().startswith("utf")


def terminal_columns() -> int:
    """The width of stdout in columns, at least `_MIN_COLUMNS`."""
    if not sys.stdout.isatty():
        return _COLUMNS_WITHOUT_TERMINAL
    return max(shutil.get_terminal_size().columns, _MIN_COLUMNS)


def print_lines(lines: Iterable[Line]) -> None:
    """Print lines on stdout; in colour on a terminal, unless NO_COLOR is set."""
    coloured = is_stdout_terminal() and not os.environ.get("NO_COLOR")
    encoding = sys.stdout.encoding or "ascii"
    for line in lines:
        text = ""
        for piece in (line,) if isinstance(line, str) else line:
            escaped = display.escape_block(piece)
            style = getattr(piece, "style", "")
            if coloured and style and not escaped.isspace():
                colour = _COLOURS.get(style)
                attributes: dict[str, Any] = {"fg": colour} if colour else {style: True}
                escaped = click.style(escaped, **attributes)
            text += escaped
        # Characters that the encoding lacks are printed as escapes.
        printable = text.rstrip(" ").encode(encoding, "backslashreplace").decode(encoding)
        with _translate_stdout_errors(sys.stdout):
            click.echo(printable, color=True)


def print_note(text: str) -> None:
    """Print one sentence for people on stderr."""
    click.echo(note_line(text), err=True)


def note_line(text: str) -> str:
    """The line that `print_note` prints."""
    return f"llm-proxy: {display.escape_block(text)}"


def losses_note(losses: Sequence[str]) -> str:
    """The end of a note about a conversion: what was lost; empty if nothing was."""
    if not losses:
        return ""
    more = len(losses) - _MAX_SHOWN_LOSSES
    shown = ", ".join(losses[:_MAX_SHOWN_LOSSES])
    return f"; not converted: {shown}" + (f", and {more} more" if more > 0 else "")


def print_error(text: str) -> None:
    """Print an error on stderr."""
    click.echo(f"llm-proxy: error: {display.escape_block(text)}", err=True)


def print_json(document: Any) -> None:
    """Print one JSON document on stdout, indented and escaped; paths as valid Unicode."""
    _print_json(document, indent=2)


def print_json_line(document: Any, stream: TextIO | None = None) -> None:
    """Print one JSON document on one line of stdout, or of another stream, escaped."""
    _print_json(document, None, stream)


def _print_json(document: Any, indent: int | None, stream: TextIO | None = None) -> None:
    try:
        encoded = orjson.dumps(
            document, default=_path_text, option=orjson.OPT_INDENT_2 if indent else None
        ).decode()
    except TypeError:  # a lone surrogate, or an integer of more than 64 bits
        separators = (",", ": " if indent else ":")
        encoded = json.dumps(document, default=_path_text, indent=indent, separators=separators)
    write_stdout_bytes(display.escape_json(encoded).encode() + b"\n", stream)


def _path_text(value: Any) -> str:
    if not isinstance(value, PurePath):
        raise TypeError(f"{type(value)} in a JSON document")
    return display.path_as_unicode_text(value)


def write_stdout_bytes(data: bytes, stream: TextIO | None = None) -> None:
    """Write bytes to stdout as they are, or to that of `reserved_stdout`."""
    stream = stream or sys.stdout
    with _translate_stdout_errors(stream):
        stream.flush()
        stream.buffer.write(data)
        stream.buffer.flush()


def write_terminal_safe_bytes(data: bytes, label: str) -> None:
    """Write bytes to stdout as they are; `label` names them in the error.

    Raises `UsageError` where stdout is a terminal and the bytes hold control characters.
    """
    if (
        sys.stdout.isatty()
        and _TERMINAL_SAFE_TEXT.fullmatch(data.decode("utf-8", "replace")) is None
    ):
        raise UsageError(
            f"{label} contains terminal control characters; redirect the output to a file or a "
            "pipe, or run llm-proxy show --messages, which escapes control characters"
        )
    write_stdout_bytes(data)


def write_new_file_or_stdout(data: bytes, output: Path | None, label: str) -> None:
    """Write to a new private file, or to stdout for None and `-`; `label` names the data in errors.

    Raises `UsageError` for a file that exists or cannot be written.
    """
    if output is None or output == Path("-"):
        write_terminal_safe_bytes(data, label)
        return
    try:
        with open(output, "xb", opener=private_opener) as file:
            file.write(data)
    except FileExistsError:
        raise UsageError(f"{output} already exists; choose another file") from None
    except OSError as error:
        raise UsageError(f"cannot write {output}: {error.strerror}") from None


@contextmanager
def reserved_stdout() -> Iterator[TextIO]:
    """What stdout was; until the context ends, what anything else prints there goes to stderr."""
    encoding = sys.stdout.encoding
    with os.fdopen(os.dup(1), "w", encoding=encoding) as stream, redirect_stdout(sys.stderr):
        os.dup2(2, 1)
        try:
            yield stream
        finally:
            os.dup2(stream.fileno(), 1)


@contextmanager
def _translate_stdout_errors(stream: TextIO) -> Iterator[None]:
    """Turn an `OSError` of a write to stdout, such as a full disk, into `LlmProxyError`.

    EPIPE passes: click handles it.
    """
    try:
        yield
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise
        # At exit, Python would fail to flush stdout once more.
        devnull = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(devnull, stream.fileno())
        finally:
            os.close(devnull)
        raise LlmProxyError(
            f"cannot write to stdout: {error.strerror}; the output is incomplete"
        ) from error


class TableColumn(NamedTuple):
    """The title, the alignment and the priority of a column."""

    title: str
    is_right_aligned: bool = False
    """Whether cells are aligned to the right, as numbers are."""
    drop_priority: int = 0
    """On a narrow terminal, the column with the largest priority is left out first; 0 never is."""


def print_table(columns: Sequence[TableColumn], rows: Sequence[Sequence[str]]) -> None:
    """Print a table on stdout: with rich on a terminal, as aligned plain text elsewhere."""
    if not is_stdout_terminal() or is_stdout_ascii_only():
        print_lines(plain_table_lines(columns, rows))
        return
    from rich.console import Console  # noqa: PLC0415 # only for a terminal
    from rich.table import Table  # noqa: PLC0415 # only for a terminal
    from rich.text import Text  # noqa: PLC0415 # only for a terminal

    def styled_cell(cell: str) -> Text:
        style = getattr(cell, "style", "")
        return Text(display.escape_line(cell), _COLOURS.get(style, style))

    table = Table(box=None, pad_edge=False, padding=(0, _COLUMN_GAP, 0, 0), header_style="bold")
    kept_indexes = fitting_column_indexes(columns, rows, terminal_columns())
    for i in kept_indexes:
        table.add_column(
            Text(columns[i].title.upper()),
            justify="right" if columns[i].is_right_aligned else "left",
            overflow="fold",
        )
    for row in rows:
        table.add_row(*(styled_cell(row[i]) for i in kept_indexes))
    color_system: Any = None if os.environ.get("NO_COLOR") else "auto"
    Console(color_system=color_system, highlight=False).print(table)


def fitting_column_indexes(
    columns: Sequence[TableColumn], rows: Sequence[Sequence[str]], width: int
) -> list[int]:
    """The indexes of the columns that fit on a terminal of `width` columns."""
    widths = _column_widths(columns, rows)
    kept_indexes = list(range(len(columns)))
    while sum(widths[i] + _COLUMN_GAP for i in kept_indexes) > width + _COLUMN_GAP:
        dropped_index = max(kept_indexes, key=lambda i: columns[i].drop_priority)
        if columns[dropped_index].drop_priority == 0:
            break
        kept_indexes.remove(dropped_index)
    return kept_indexes


def plain_table_lines(
    columns: Sequence[TableColumn], rows: Sequence[Sequence[str]]
) -> Iterator[str]:
    """The table as lines of aligned text, a line of titles first."""
    widths = _column_widths(columns, rows)
    for row in ([column.title.upper() for column in columns], *rows):
        cells = (
            display.pad_to_width(
                display.escape_line(cell), width, align_right=column.is_right_aligned
            )
            for column, width, cell in zip(columns, widths, row, strict=True)
        )
        yield (" " * _COLUMN_GAP).join(cells).rstrip()


def _column_widths(columns: Sequence[TableColumn], rows: Sequence[Sequence[str]]) -> list[int]:
    widths = [len(column.title) for column in columns]
    for row in rows:
        cell_widths = (display.display_width(display.escape_line(cell)) for cell in row)
        widths = [max(pair) for pair in zip(widths, cell_widths, strict=True)]
    return widths


class ProgressReporter:
    """Shows which step runs and how many are finished: in a bar, or one line for each step."""

    def __init__(self, step_count: int, bar: Progress | None) -> None:
        self._step_count = step_count
        self._finished_count = 0
        self._bar = bar

    def start_step(self, label: str) -> None:
        """Show the label of the step that starts, in the bar; empty for none."""
        if self._bar is not None:
            from rich.markup import escape  # noqa: PLC0415 # only for a terminal

            self._bar.update(self._bar.task_ids[0], description=escape(display.escape_line(label)))

    def finish_step(self, label: str, result: str, duration_s: float) -> None:
        """Count a finished step: its label, its result in a few words, its duration in seconds."""
        self._finished_count += 1
        if self._bar is not None:
            self._bar.advance(self._bar.task_ids[0])
        else:
            line = display.escape_line(f"{label}: {result}, {duration_s:.1f} s")
            click.echo(f"llm-proxy: {self._finished_count}/{self._step_count} {line}", err=True)


@contextmanager
def progress_reporter(step_count: int) -> Iterator[ProgressReporter]:
    """Report progress over `step_count` steps on stderr, until the context ends."""
    if not is_stderr_terminal():
        yield ProgressReporter(step_count, None)
        return
    from rich.console import Console  # noqa: PLC0415 # only for a terminal
    from rich.progress import Progress  # noqa: PLC0415 # only for a terminal

    with Progress(console=Console(stderr=True), transient=True) as bar:
        bar.add_task("", total=step_count)
        yield ProgressReporter(step_count, bar)
