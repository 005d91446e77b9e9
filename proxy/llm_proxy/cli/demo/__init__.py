"""`demo`: records a stream, stops its provider, and replays the recording."""

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
    from llm_proxy.cli.demo.report import LabelledText
    from llm_proxy.shell.demo.run import DemoResult

_STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)
"""Signals that stop the demo as Ctrl-C does; its temporary folder is deleted all the same."""
_MAX_COLUMNS: Final = 100
"""Width of the output on a wide terminal."""
_QUOTE_PREFIX: Final = "| "


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
    folder = None if keep is None else _ensure_folder(keep)
    printing.print_lines([printing.styled_line(report.TITLE)])
    screen = DemoScreen()
    demo_result = _play_in_temporary_folder(screen, folder)
    screen.show_lines(
        report.comparison_lines(
            demo_result, screen.text_columns, ascii_only=printing.is_stdout_ascii_only()
        )
    )
    screen.show_lines(report.cassette_lines(demo_result, screen.text_columns, keep))
    differences = report.find_differences(demo_result)
    screen.show_lines(report.result_lines(demo_result, differences))
    screen.show_lines(report.next_step_lines(demo_result, keep))
    raise click.exceptions.Exit(1 if differences else 0)


def _play_in_temporary_folder(screen: DemoScreen, keep: Path | None) -> DemoResult:
    from llm_proxy.shell.demo import run as stage  # noqa: PLC0415 # it imports the server, which is slow

    observer = stage.DemoObserver(
        screen.start_step, lambda read: screen.show_received(read.received_bytes)
    )
    stop_signals: list[int] = []

    async def play_until_signal() -> DemoResult:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()

        def stop(signal_number: int) -> None:
            stop_signals.append(signal_number)
            if task is not None:
                task.cancel()

        for signal_number in _STOP_SIGNALS:
            loop.add_signal_handler(signal_number, stop, signal_number)
        with tempfile.TemporaryDirectory(prefix="llm-proxy-demo-") as temporary:
            folder = Path(temporary)
            return await stage.run_demo(keep or folder / "cassettes", folder / "spool", observer)

    try:
        return asyncio.run(play_until_signal())
    except asyncio.CancelledError:
        raise click.exceptions.Exit(128 + stop_signals[0] if stop_signals else 1) from None


class DemoScreen:
    """Prints labelled lines, and streamed text word by word as it arrives."""

    def __init__(self) -> None:
        self.text_columns = min(printing.terminal_columns(), _MAX_COLUMNS) - report.INDENT
        self._reader = report.ChatTextReader()
        self._column = 0

    def start_step(self, name: str, text: str) -> None:
        """Print the label and the text of a step that starts."""
        self.show_lines([(name, text)])

    def show_received(self, data: bytes) -> None:
        """Print the chat text in bytes that the client received, wrapped at word boundaries."""
        for word in self._reader.feed(data):
            if self._column + display.display_width(word) > self.text_columns:
                self._finish_text_line()
            if self._column == 0 and word:
                self._write_text(" " * report.INDENT + _QUOTE_PREFIX)
                self._column = len(_QUOTE_PREFIX)
            shown = word if self._column > len(_QUOTE_PREFIX) else word.lstrip()
            self._write_text(shown)
            self._column += display.display_width(shown)

    def show_lines(self, rows: Sequence[LabelledText]) -> None:
        """Print an empty line, then these rows."""
        self._finish_text_line()
        lines = [_labelled_line(name, text) for name, text in rows]
        printing.print_lines([printing.styled_line(), *lines])

    def _finish_text_line(self) -> None:
        if self._column:
            self._write_text("\n")
        self._column = 0

    def _write_text(self, text: str) -> None:
        encoding = sys.stdout.encoding or "ascii"
        click.echo(text.encode(encoding, "replace").decode(encoding), nl=False)


def _labelled_line(name: str, text: str) -> Line:
    if not text:
        return printing.styled_line()
    return printing.styled_line(StyledText(f"{name:<{report.INDENT}}", "bold"), text)


def _ensure_folder(keep: Path) -> Path:
    """Create the folder to record into.  Raises `UsageError` where that fails."""
    if keep.exists() and not keep.is_dir():
        raise UsageError(f"--keep: {str(keep)!r} is a file: give a folder")
    try:
        keep.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--keep {keep} cannot be made: {error.strerror}") from None
    return keep
