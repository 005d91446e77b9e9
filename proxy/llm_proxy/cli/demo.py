"""`demo`: a stream recorded, its provider stopped, the recording played back."""

from __future__ import annotations

import asyncio
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from llm_proxy.cli import demo_report
from llm_proxy.errors import UsageError

if TYPE_CHECKING:
    from llm_proxy.cli.demo_report import Row
    from llm_proxy.shell.demo import Demo

_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)
"""What stops us beside Ctrl-C, and must leave nothing behind either."""


@click.command
@click.option(
    "--keep",
    type=click.Path(path_type=Path, file_okay=False),
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
    screen = Screen(_width())
    screen.title()
    with tempfile.TemporaryDirectory(prefix="llm-proxy-demo-") as temporary:
        folder = Path(temporary)
        done = _play(screen, _usable(keep) if keep else folder / "cassettes", folder / "spool")
    screen.show(demo_report.comparison(done, screen.inner, ascii_only=screen.ascii_only))
    screen.show(demo_report.cassette(done, screen.inner, keep))
    differences = demo_report.differences(done)
    screen.show(demo_report.verdict(done, differences))
    screen.show(demo_report.next_steps(done, keep))
    raise click.exceptions.Exit(1 if differences else 0)


def _play(screen: Screen, cassettes: Path, spool: Path) -> Demo:
    """The demo, whatever stops it."""
    from llm_proxy.shell import demo as stage  # noqa: PLC0415 # it serves, which is slow to load

    stopped_by: list[int] = []

    async def stoppable() -> Demo:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()

        def stop(number: int) -> None:
            stopped_by.append(number)
            if task is not None:
                task.cancel()

        for number in _SIGNALS:
            loop.add_signal_handler(number, stop, number)
        return await stage.play(
            cassettes, spool, stage.Audience(screen.step, lambda read: screen.heard(read.data))
        )

    try:
        return asyncio.run(stoppable())
    except asyncio.CancelledError:
        raise click.exceptions.Exit(128 + stopped_by[0] if stopped_by else 1) from None


class Screen:
    """Lines with a name in front, and text that flows as it arrives."""

    def __init__(self, width: int) -> None:
        self.inner = width - demo_report.INDENT
        self.ascii_only = not (sys.stdout.encoding or "").lower().startswith("utf")
        self._reader = demo_report.TextReader()
        self._column = 0

    def title(self) -> None:
        """What this is."""
        self._write(demo_report.TITLE + "\n")

    def step(self, name: str, text: str) -> None:
        """A step begins."""
        self.show([(name, text)])

    def heard(self, data: bytes) -> None:
        """Show what the client received, as words."""
        for word in self._reader.words(data):
            if self._column + len(word) > self.inner:
                self._write("\n")
                self._column = 0
            if self._column == 0 and word:
                self._write(" " * demo_report.INDENT + "| ")
                self._column = 2
            begun = self._column > len("| ")
            shown = word if begun else word.lstrip()
            self._write(shown)
            self._column += len(shown)

    def show(self, rows: Sequence[Row]) -> None:
        """A block of lines."""
        self._write("\n\n" if self._column else "\n")
        self._column = 0
        for name, text in rows:
            label = f"{name:<{demo_report.INDENT}}" if name or text else ""
            self._write((click.style(label, bold=True) if name else label) + text + "\n")

    def _write(self, text: str) -> None:
        encoding = sys.stdout.encoding or "ascii"
        click.echo(text.encode(encoding, "replace").decode(encoding), nl=False)
        sys.stdout.flush()


def _usable(keep: Path) -> Path:
    """The folder to record into.  Raises `UsageError` where it cannot be made."""
    try:
        keep.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--keep {keep} cannot be made: {error.strerror}") from None
    return keep


def _width() -> int:
    return min(max(shutil.get_terminal_size().columns, 60), 100)
