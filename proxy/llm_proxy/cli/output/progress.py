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


class ProgressReporter(Protocol):
    """Shows which step runs and how many are finished."""

    def start_step(self, label: str) -> None:
        """Show the label of the step that starts; empty for none."""

    def finish_step(self, label: str, result: str, duration_s: float) -> None:
        """Count a finished step: its label, its result in a few words, its duration in seconds."""


@contextmanager
def progress_reporter(step_count: int) -> Iterator[ProgressReporter]:
    """Report progress over `step_count` steps on stderr, until the context ends."""
    if not sys.stderr.isatty():
        yield _LineProgress(step_count)
        return
    from rich.console import Console  # noqa: PLC0415 # only for a terminal
    from rich.progress import Progress as RichBar  # noqa: PLC0415 # only for a terminal

    with RichBar(console=Console(stderr=True), transient=True) as bar:
        yield _BarProgress(bar, step_count)


class _LineProgress:
    def __init__(self, step_count: int) -> None:
        self._step_count = step_count
        self._finished_count = 0

    def start_step(self, label: str) -> None:
        """Print nothing: lines report finished steps only."""

    def finish_step(self, label: str, result: str, duration_s: float) -> None:
        self._finished_count += 1
        line = display.escape_line(f"{label}: {result}, {duration_s:.1f} s")
        click.echo(f"llm-proxy: {self._finished_count}/{self._step_count} {line}", err=True)


class _BarProgress:
    def __init__(self, bar: Bar, step_count: int) -> None:
        self._bar = bar
        self._task_id = bar.add_task("", total=step_count)

    def start_step(self, label: str) -> None:
        from rich.markup import escape  # noqa: PLC0415 # only for a terminal

        self._bar.update(self._task_id, description=escape(display.escape_line(label)))

    def finish_step(self, label: str, result: str, duration_s: float) -> None:
        self._bar.advance(self._task_id)
