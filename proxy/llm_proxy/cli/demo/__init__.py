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
from llm_proxy.cli.output.printing import Line, Span
from llm_proxy.errors import UsageError

if TYPE_CHECKING:
    from llm_proxy.cli.demo.report import Row
    from llm_proxy.shell.demo.run import Demo

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
    folder = None if keep is None else _usable(keep)
    printing.print_lines([printing.line(report.TITLE)])
    screen = Screen()
    done = _play(screen, folder)
    screen.show(report.comparison(done, screen.inner, ascii_only=printing.is_ascii()))
    screen.show(report.cassette(done, screen.inner, keep))
    differences = report.differences(done)
    screen.show(report.verdict(done, differences))
    screen.show(report.next_steps(done, keep))
    raise click.exceptions.Exit(1 if differences else 0)


def _play(screen: Screen, keep: Path | None) -> Demo:
    """The demo, in a temporary folder that is gone however it ends."""
    from llm_proxy.shell.demo import run as stage  # noqa: PLC0415 # it serves, which is slow to load

    audience = stage.Audience(screen.step, lambda read: screen.heard(read.data))
    stopped_by: list[int] = []

    async def stoppable() -> Demo:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()

        def stop(number: int) -> None:
            stopped_by.append(number)
            if task is not None:
                task.cancel()

        for number in _SIGNALS:
            loop.add_signal_handler(number, stop, number)
        with tempfile.TemporaryDirectory(prefix="llm-proxy-demo-") as temporary:
            folder = Path(temporary)
            return await stage.play(keep or folder / "cassettes", folder / "spool", audience)

    try:
        return asyncio.run(stoppable())
    except asyncio.CancelledError:
        raise click.exceptions.Exit(128 + stopped_by[0] if stopped_by else 1) from None


class Screen:
    """Lines with a name in front, and text that flows as it arrives."""

    def __init__(self) -> None:
        self.inner = min(printing.columns(), _WIDEST) - report.INDENT
        self._reader = report.TextReader()
        self._column = 0

    def step(self, name: str, text: str) -> None:
        """A step begins."""
        self.show([(name, text)])

    def heard(self, data: bytes) -> None:
        """Show what the client received, as words."""
        for word in self._reader.words(data):
            if self._column + display.cells(word) > self.inner:
                self._end_of_text()
            if self._column == 0 and word:
                self._flow(" " * report.INDENT + _QUOTE)
                self._column = len(_QUOTE)
            shown = word if self._column > len(_QUOTE) else word.lstrip()
            self._flow(shown)
            self._column += display.cells(shown)

    def show(self, rows: Sequence[Row]) -> None:
        """A block of lines, below an empty one."""
        self._end_of_text()
        lines = [_labelled(name, text) for name, text in rows]
        printing.print_lines([printing.line(), *lines])

    def _end_of_text(self) -> None:
        if self._column:
            self._flow("\n")
        self._column = 0

    def _flow(self, text: str) -> None:
        encoding = sys.stdout.encoding or "ascii"
        click.echo(text.encode(encoding, "replace").decode(encoding), nl=False)


def _labelled(name: str, text: str) -> Line:
    if not text:
        return printing.line()
    return printing.line(Span(f"{name:<{report.INDENT}}", "bold"), text)


def _usable(keep: Path) -> Path:
    """The folder to record into.  Raises `UsageError` where it cannot be made."""
    if keep.exists() and not keep.is_dir():
        raise UsageError(f"--keep: {str(keep)!r} is a file: give a folder")
    try:
        keep.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--keep {keep} cannot be made: {error.strerror}") from None
    return keep
