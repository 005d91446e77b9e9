"""How far something is that takes long: a bar on a terminal, a line a step elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import click

from llm_proxy import display

if TYPE_CHECKING:
    from rich.progress import Progress as Bar


class Step(Protocol):
    """Something that has been done."""

    @property
    def fault(self) -> str:
        """What it was."""

    @property
    def why(self) -> str:
        """How it ended."""

    @property
    def seconds(self) -> float:
        """How long it took."""


class Progress(Protocol):
    """What is told how far it is."""

    def begins(self, what: str) -> None:
        """What comes next; empty for nothing."""

    def ends(self, step: Step) -> None:
        """What has been done."""


@contextmanager
def progress(steps: int) -> Iterator[Progress]:
    """Tell how far it is on stderr, over so many steps."""
    if not sys.stderr.isatty():
        yield _Lines(steps)
        return
    from rich.console import Console  # noqa: PLC0415 # only for a terminal
    from rich.progress import Progress as RichBar  # noqa: PLC0415 # only for a terminal

    with RichBar(console=Console(stderr=True), transient=True) as bar:
        yield _Bar(bar, steps)


class _Lines:
    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._done = 0

    def begins(self, what: str) -> None:
        """Lines tell what is over."""

    def ends(self, step: Step) -> None:
        self._done += 1
        what = display.one_line(f"{step.fault}: {step.why}, {step.seconds:.1f} s")
        click.echo(f"llm-proxy: {self._done}/{self._steps} {what}", err=True)


class _Bar:
    def __init__(self, bar: Bar, steps: int) -> None:
        self._bar = bar
        self._task = bar.add_task("", total=steps)

    def begins(self, what: str) -> None:
        from rich.markup import escape  # noqa: PLC0415 # only for a terminal

        self._bar.update(self._task, description=escape(display.one_line(what)))

    def ends(self, step: Step) -> None:
        self._bar.advance(self._task)
