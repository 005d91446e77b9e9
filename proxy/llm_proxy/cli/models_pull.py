"""`models pull`: downloads a model, with a progress bar for each of its layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Final

import click

from llm_chat import PullProgress, Retry
from llm_proxy import display
from llm_proxy.cli.models import provider_option, run_with_models
from llm_proxy.cli.output import is_stderr_terminal, note_line, print_json_line, print_note

if TYPE_CHECKING:
    from rich.live import Live
    from rich.progress import Progress, TaskID

_INTERRUPTED: Final = 130
_MIN_COLUMNS_FOR_RATES: Final = 72
"""The columns of a terminal from which on the bars have speeds and remaining times."""
_CTRL_C_COLUMNS: Final = 3
"""The columns at the right that the bars leave free."""
_LINES_PER_LAYER: Final = 10
"""How often the progress of a layer is printed where there is no terminal."""


@click.command
@click.argument("model")
@provider_option
@click.option("--json", "as_json", is_flag=True, help="Print each progress report as a JSON line.")
def pull(model: str, provider: str | None, *, as_json: bool) -> None:
    r"""Download a model to the server.

    A progress bar on stderr shows each layer of the model. If stderr is not a terminal, the
    progress is printed as lines.

    Ctrl-C stops the download. The server keeps the downloaded part; to resume, run the command
    again. If the connection to the server is lost, the command resumes the download, and fails
    after two attempts without progress (provider local: after the first failure).

    \b
    Examples:
      llm-proxy models pull llama3.2
      llm-proxy models pull hf.co/bartowski/Llama-3.2-1B-Instruct-GGUF
      OLLAMA_HOST=http://gpu:11434 llm-proxy models pull qwen3:8b
      llm-proxy models pull llama3.2 --json | jq -r .status
      llm-proxy record -- llm-proxy models pull llama3.2
    """
    try:
        with nullcontext(_print_json_line) if as_json else _progress_on_stderr() as report:
            run_with_models(provider, lambda manager: manager.pull_model(model, report))
    except click.exceptions.Exit as stop:
        if stop.exit_code == _INTERRUPTED:
            options = "" if provider is None else f"--provider {provider} "
            command = f"llm-proxy models pull {options}{display.shell_quoted_path(model)}"
            print_note(f"stopped; to resume the download, run {command}")
        raise
    if not as_json:
        print_note(f"downloaded {display.escape_line(model)}")


def _print_json_line(progress: PullProgress) -> None:
    document: dict[str, object] = {"status": progress.status}
    if progress.digest:
        document["digest"] = progress.digest
    if progress.total is not None:
        document |= {"total": progress.total, "completed": progress.completed or 0}
    if progress.retry is not None:
        document |= {"wait_s": round(progress.retry.wait_s, 3), "error": str(progress.retry.error)}
    print_json_line(document)


@contextmanager
def _progress_on_stderr() -> Iterator[Callable[[PullProgress], None]]:
    """Shows reports until the context ends: as bars on a terminal, elsewhere as lines."""
    if not is_stderr_terminal():
        yield _ProgressLines().show
        return
    from rich.console import Console, Group  # noqa: PLC0415 # only for a terminal
    from rich.constrain import Constrain  # noqa: PLC0415 # only for a terminal
    from rich.live import Live  # noqa: PLC0415 # only for a terminal
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn  # noqa: PLC0415 # only for a terminal

    console = Console(stderr=True)
    rates = [TextColumn("{task.fields[rate]}", style="progress.remaining", markup=False)]
    layers = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=None),
        TextColumn("{task.percentage:>3.0f} %", style="progress.percentage"),
        DownloadColumn(),
        *(rates if console.width >= _MIN_COLUMNS_FOR_RATES else ()),
    )
    statuses = Progress(TextColumn("{task.description}", markup=False))

    def rows() -> Group:
        # The terminal prints ^C behind the bar: in the last columns, it would add a line.
        return Group(Constrain(layers, console.width - _CTRL_C_COLUMNS), statuses)

    with Live(get_renderable=rows, console=console) as live:
        bars = _ProgressBars(live, layers, statuses)
        try:
            yield bars.show
        finally:
            bars.show_status("")


class _ProgressLines:
    """Prints each status, and the progress of each layer in steps."""

    def __init__(self) -> None:
        self._last_status = ""
        self._steps: dict[str, int] = {}
        """The last printed step of each layer."""

    def show(self, progress: PullProgress) -> None:
        """Print a report if it is news."""
        if progress.retry is not None:
            print_note(_retry_note(progress.retry))
            return
        if not progress.total:
            if progress.status != self._last_status:
                print_note(display.escape_line(progress.status))
            self._last_status = progress.status
            return
        layer = _layer_name(progress)
        fraction = (progress.completed or 0) / progress.total
        step = int(fraction * _LINES_PER_LAYER)
        if layer not in self._steps and (resumption := _resumption_note(progress)):
            print_note(resumption)
        elif step > self._steps.get(layer, -1):
            share = f"{display.format_percent(fraction)} of {display.format_size(progress.total)}"
            print_note(f"{display.escape_line(progress.status)}: {share}")
        self._steps[layer] = max(step, self._steps.get(layer, -1))


class _ProgressBars:
    """Shows a bar for each layer, and the last other status."""

    def __init__(self, live: Live, layers: Progress, statuses: Progress) -> None:
        self._live = live
        self._layers = layers
        self._statuses = statuses
        self._status_id = statuses.add_task("", visible=False)
        self._layer_ids: dict[str, TaskID] = {}

    def show(self, progress: PullProgress) -> None:
        """Show a report."""
        if progress.retry is not None:
            self.show_status("")
            self._print_above(_retry_note(progress.retry))
        elif progress.total:
            self.show_status("")
            self._show_layer(progress, progress.total)
        else:
            self.show_status(display.escape_line(progress.status))

    def show_status(self, status: str) -> None:
        """Show a status below the bars; none if it is empty."""
        self._statuses.update(self._status_id, description=status, visible=bool(status))

    def _show_layer(self, progress: PullProgress, total: int) -> None:
        layer, completed = _layer_name(progress), progress.completed or 0
        if layer not in self._layer_ids:
            if resumption := _resumption_note(progress):
                self._print_above(resumption)
            # The resumed position is where the layer begins, so it does not count as speed.
            self._layer_ids[layer] = self._layers.add_task(
                display.escape_line(progress.status), total=total, completed=completed, rate=""
            )
            self._live.refresh()
        task_id = self._layer_ids[layer]
        self._layers.update(task_id, total=total, completed=completed)
        task = next(task for task in self._layers.tasks if task.id == task_id)
        rate = ""
        if task.speed and task.time_remaining:
            left = display.format_duration(task.time_remaining * 1000)
            rate = f"{display.format_size(int(task.speed))}/s, {left} left"
        self._layers.update(task_id, rate=rate)

    def _print_above(self, note: str) -> None:
        self._live.console.print(
            note_line(note), markup=False, emoji=False, highlight=False, soft_wrap=True
        )


def _layer_name(progress: PullProgress) -> str:
    return progress.digest or progress.status


def _retry_note(retry: Retry) -> str:
    return f"{retry.error}; resuming in {retry.wait_s:.1f} s"


def _resumption_note(progress: PullProgress) -> str:
    """Where a layer resumes; empty if no part of it was downloaded before."""
    total, completed = progress.total or 0, progress.completed or 0
    if not 0 < completed < total:
        return ""
    sizes = f"{display.format_size(completed)} of {display.format_size(total)}"
    return f"{display.escape_line(progress.status)}: resuming at {sizes}"
