"""`demo`: a stream recorded, its provider stopped, the recording played back."""

from __future__ import annotations

import asyncio
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from llm_proxy import display
from llm_proxy.cli.demo import report
from llm_proxy.cli.output import printing
from llm_proxy.cli.output.printing import Line, StyledText
from llm_proxy.errors import UsageError

if TYPE_CHECKING:
    from llm_proxy.cli.demo.report import Row
    from llm_proxy.shell.demo.run import DemoResult

_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)
"""What stops us beside Ctrl-C, and must leave nothing behind either."""
_WIDEST: Final = 100
"""Columns."""
_QUOTE: Final = "| "


@click.command
@click.option(
    "--keep",
    type=click.Path(path_type=Path),
    help="Record into this folder, and leave the cassette there.",
)
def demo(keep: Path | None) -> None:
    r"""Record a stream, stop its provider, replay the recording; then compare the two.

    It needs no key and no network: a small provider of its own streams on loopback. Everything
    it writes lies in a temporary folder that is gone afterwards. The exit code is 0 when the
    replay gave the recorded bytes in the recorded pieces, and 1 when anything differs.

    \b
    Examples:
      llm-proxy demo
      llm-proxy demo --keep cassettes     then: llm-proxy show, llm-proxy replay
    """
    folder = None if keep is None else _usable_folder(keep)
    printing.print_lines([printing.styled_line(report.TITLE)])
    screen = DemoScreen()
    done = _play_in_temporary_folder(screen, folder)
    screen.show_lines(report.comparison_lines(done, screen.inner, ascii_only=printing.is_ascii()))
    screen.show_lines(report.cassette_lines(done, screen.inner, keep))
    differences = report.find_differences(done)
    screen.show_lines(report.verdict_line(done, differences))
    screen.show_lines(report.next_step_lines(done, keep))
    raise click.exceptions.Exit(1 if differences else 0)


def _play_in_temporary_folder(screen: DemoScreen, keep: Path | None) -> DemoResult:
    from llm_proxy.shell.demo import run as stage  # noqa: PLC0415 # it serves, which is slow to load

    audience = stage.DemoObserver(screen.start_step, lambda read: screen.show_received(read.data))
    stopped_by: list[int] = []

    async def stoppable() -> DemoResult:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()

        def stop(number: int) -> None:
            stopped_by.append(number)
            if task is not None:
                task.cancel()

        for number in _SIGNALS:
            loop.add_signal_handler(number, stop, number)
        with tempfile.TemporaryDirectory(prefix="llm-proxy-demo-") as temporary:
            folder = Path(temporary)
            return await stage.play_demo(keep or folder / "cassettes", folder / "spool", audience)

    try:
        return asyncio.run(stoppable())
    except asyncio.CancelledError:
        raise click.exceptions.Exit(128 + stopped_by[0] if stopped_by else 1) from None


class DemoScreen:
    """Lines with a name in front, and text that flows as it arrives."""

    def __init__(self) -> None:
        self.inner = min(printing.terminal_columns(), _WIDEST) - report.INDENT
        self._reader = report.ChatTextReader()
        self._column = 0

    def start_step(self, name: str, text: str) -> None:
        """A step begins."""
        self.show_lines([(name, text)])

    def show_received(self, data: bytes) -> None:
        """Show what the client received, as words."""
        for word in self._reader.feed(data):
            if self._column + display.terminal_width(word) > self.inner:
                self._finish_text_line()
            if self._column == 0 and word:
                self._write_wrapped(" " * report.INDENT + _QUOTE)
                self._column = len(_QUOTE)
            shown = word if self._column > len(_QUOTE) else word.lstrip()
            self._write_wrapped(shown)
            self._column += display.terminal_width(shown)

    def show_lines(self, rows: Sequence[Row]) -> None:
        """A block of lines, below an empty one."""
        self._finish_text_line()
        lines = [_labelled_line(name, text) for name, text in rows]
        printing.print_lines([printing.styled_line(), *lines])

    def _finish_text_line(self) -> None:
        if self._column:
            self._write_wrapped("\n")
        self._column = 0

    def _write_wrapped(self, text: str) -> None:
        encoding = sys.stdout.encoding or "ascii"
        click.echo(text.encode(encoding, "replace").decode(encoding), nl=False)


def _labelled_line(name: str, text: str) -> Line:
    if not text:
        return printing.styled_line()
    return printing.styled_line(StyledText(f"{name:<{report.INDENT}}", "bold"), text)


def _usable_folder(keep: Path) -> Path:
    """The folder to record into.  Raises `UsageError` where it cannot be made."""
    if keep.exists() and not keep.is_dir():
        raise UsageError(f"--keep: {str(keep)!r} is a file: give a folder")
    try:
        keep.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--keep {keep} cannot be made: {error.strerror}") from None
    return keep
