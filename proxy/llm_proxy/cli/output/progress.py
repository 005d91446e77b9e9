"""Reports progress: a bar on a terminal, one line per step elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import click

from llm_proxy import display

if TYPE_CHECKING:
    from rich.progress import Progress as Bar


class ProgressStep(Protocol):
    """Something that has been done."""

    @property
    def fault(self) -> str:
        """What it was."""

    @property
    def reason(self) -> str:
        """How it ended."""

    @property
    def seconds(self) -> float:
        """How long it took."""


class ProgressReporter(Protocol):
    """What is told how far it is."""

    def start(self, label: str) -> None:
        """What comes next; empty for nothing."""

    def finish(self, step: ProgressStep) -> None:
        """What has been done."""


@contextmanager
def progress_reporter(steps: int) -> Iterator[ProgressReporter]:
    """Tell how far it is on stderr, over so many steps."""
    if not sys.stderr.isatty():
        yield _LineProgress(steps)
        return
    from rich.console import Console  # noqa: PLC0415 # only for a terminal
    from rich.progress import Progress as RichBar  # noqa: PLC0415 # only for a terminal

    with RichBar(console=Console(stderr=True), transient=True) as bar:
        yield _BarProgress(bar, steps)


class _LineProgress:
    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._done = 0

    def start(self, label: str) -> None:
        """Lines tell what is over."""

    def finish(self, step: ProgressStep) -> None:
        self._done += 1
        label = display.escape_line(f"{step.fault}: {step.reason}, {step.seconds:.1f} s")
        click.echo(f"llm-proxy: {self._done}/{self._steps} {label}", err=True)


class _BarProgress:
    def __init__(self, bar: Bar, steps: int) -> None:
        self._bar = bar
        self._task = bar.add_task("", total=steps)

    def start(self, label: str) -> None:
        from rich.markup import escape  # noqa: PLC0415 # only for a terminal

        self._bar.update(self._task, description=escape(display.escape_line(label)))

    def finish(self, step: ProgressStep) -> None:
        self._bar.advance(self._task)
