"""`chaos`: a command, run once for each fault."""

from __future__ import annotations

import asyncio
import logging
import signal
from contextlib import aclosing, suppress
from typing import Any, Final

import click

from llm_proxy import display
from llm_proxy.chaos.document import document
from llm_proxy.chaos.plan import plan
from llm_proxy.chaos.trials import BASELINE, Chaos, Outcome, Trial
from llm_proxy.cli.option_types import OneOf, Seconds
from llm_proxy.cli.options import server_options, settings_of
from llm_proxy.cli.output.printing import Line, Span, line, print_json, print_lines, print_note
from llm_proxy.cli.output.progress import Progress, progress
from llm_proxy.cli.output.tables import Column, print_table
from llm_proxy.cli.verdict import finding_lines
from llm_proxy.display import counted
from llm_proxy.errors import LlmProxyError, UsageError
from llm_proxy.faults.rule import Rule
from llm_proxy.shell.running.chaos import Command, trials
from llm_proxy.shell.running.settings import Settings
from llm_proxy.verdict.document import DEFAULT_LEVEL
from llm_proxy.verdict.finding import Case, Level

_DEFAULTS: Final[dict[str, Any]] = {"pace": "recorded,max-gap=20ms", "silence": 10.0}
"""What chaos has in place of the defaults of other commands: a trial should not take long."""
_STYLES: Final = {
    Outcome.PASSED: "good",
    Outcome.FAILED: "doubtful",
    Outcome.HUNG: "bad",
    Outcome.NOT_STRUCK: "dim",
}
_HEADS: Final = (
    Column("fault"),
    Column("outcome"),
    Column("requests", right=True, spare=2),
    Column("seconds", right=True, spare=1),
    Column("verdict"),
)
_SHOWN: Final = 3
"""Pieces of evidence that are printed of one finding."""
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_LINES: Final = 15
"""Of the command's output, where it fails without any fault."""


class _Command(click.Command):
    """One with defaults of its own for server options."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        for param in self.params:
            param.default = _DEFAULTS.get(param.name or "", param.default)


@click.command(cls=_Command, context_settings={"allow_interspersed_args": False})
@server_options
@click.option(
    "--timeout",
    type=Seconds(),
    default=120.0,
    show_default=True,
    help="How long the command may run in each trial, in seconds.",
)
@click.option(
    "--level",
    type=OneOf([it.value for it in Level]),
    default=DEFAULT_LEVEL.value,
    show_default=True,
    help="Findings of this level and above make the exit code 1.",
)
@click.option(
    "--survive", is_flag=True, help="Exit with 1 also where the command fails under a fault."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND...")
def chaos(
    command: tuple[str, ...], *, timeout: float, level: str, survive: bool, as_json: bool,
    **values: Any,
) -> None:  # fmt: skip
    r"""Run a command once for each fault, over the same cassettes, and judge it.

    First it runs without any fault, and must pass. Then once for each: a reset, a rate limit, half
    an event, a body that ends too early... The table shows how the command ended, and what it did
    as a client: whether it asked again, when, and how often; whether it took half an answer for a
    whole one. --fault and --faults choose what is tried; without them it is every fault there is.

    \b
    Examples:
      llm-proxy chaos -- pytest tests/test_chat.py
      llm-proxy chaos --fault 'rate-limit,first=2' --fault truncate -- python app.py
      llm-proxy chaos --scenarios scenarios/ --survive -- pytest tests/
      llm-proxy chaos --json -- npm test > chaos.json

    The exit code is 1 where a client is found to do wrong (llm-proxy verdict --help says what),
    or never ends. Answers come from cassettes, or from scenarios where --scenarios, --mock or
    --respond is given; nothing is recorded, and no network is used. So that no trial takes long,
    gaps are cut short (--pace), and the silence of a fault ends (--silence).
    """
    if not command:
        raise UsageError("chaos runs a command: llm-proxy chaos -- pytest tests/")
    scripted = any(values[it] for it in ("scenarios", "mock", "respond"))
    values["on_miss"] = values["on_miss"] or ("scenario" if scripted else "fail")
    settings = settings_of(values, command, live=False)
    rules = plan(settings.faults)
    logging.disable(logging.WARNING)  # each trial has its journal; faults of ours are told
    tried = _Trials(settings, Command(command, timeout), rules)
    tried.run()
    done = Chaos(command, tuple(tried.done), Level(level), survive, len(rules))
    if as_json:
        print_json(document(done))
    else:
        _show(done)
    if tried.stopped_by:
        raise click.exceptions.Exit(128 + tried.stopped_by)
    raise click.exceptions.Exit(1 if done.wrong else 0)


class _Trials:
    """The trials, as they come to an end."""

    def __init__(self, settings: Settings, command: Command, rules: tuple[Rule, ...]) -> None:
        self._settings = settings
        self._command = command
        self._rules = rules
        self.done: list[Trial] = []
        self.stopped_by = 0
        """The signal that ended them early; 0 for none."""

    def run(self) -> None:
        """Try everything, unless a signal ends it."""
        with progress(1 + len(self._rules)) as watched, suppress(asyncio.CancelledError):
            asyncio.run(self._run(watched))

    async def _run(self, watched: Progress) -> None:
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 # asyncio.run made one

        def stop(number: int) -> None:
            self.stopped_by = number
            task.cancel()

        for number in _SIGNALS:
            if number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
                continue  # started by nohup
            loop.add_signal_handler(number, stop, number)
        watched.begins(BASELINE)
        async with aclosing(trials(self._settings, self._command, self._rules)) as coming:
            names = iter([*(rule.text for rule in self._rules), ""])
            async for trial in coming:
                self.done.append(trial)
                watched.ends(trial)
                if trial.fault == BASELINE:
                    _check(trial)
                watched.begins(next(names))


def _check(baseline: Trial) -> None:
    """Raises `LlmProxyError` where trials would say nothing."""
    if baseline.hung or baseline.code:
        said = map(display.one_line, baseline.output.splitlines()[-_LINES:])
        lines = "".join(f"\n  {it}" for it in said)
        raise LlmProxyError(
            f"without any fault the command {baseline.why}: mend that first; it printed{lines}"
        )
    if not baseline.requests:
        raise LlmProxyError(
            "the command asked nothing of the proxy: does it read OPENAI_BASE_URL, or its "
            "provider's twin?"
        )


def _show(done: Chaos) -> None:
    rows = [_row(it) for it in done.trials]
    print_table(_HEADS, rows)
    for name, found in _by_rule(done).items():
        faults = "; ".join(trial.fault for trial, _ in found)
        _, case = found[0]
        if case.finding is not None:
            print_lines([line(""), line(Span(name, "bold"), f", under {display.one_line(faults)}")])
            print_lines(finding_lines(case, case.finding, _SHOWN))
    print_note(_summary(done))


def _by_rule(done: Chaos) -> dict[str, list[tuple[Trial, Case]]]:
    """The findings that count, with the trials that they were made in."""
    found: dict[str, list[tuple[Trial, Case]]] = {}
    for trial in done.trials:
        for case in trial.judged.reaching(done.level):
            told = found.setdefault(case.rule.name, [])
            if trial not in (it for it, _ in told):
                told.append((trial, case))
    return found


def _row(it: Trial) -> Line:
    return (
        Span(it.fault),
        Span(it.why, _STYLES[it.outcome]),
        Span(str(it.requests)),
        Span(f"{it.seconds:.1f}"),
        Span(it.remark),
    )


def _summary(done: Chaos) -> str:
    tried = [it for it in done.trials if it.fault != BASELINE]
    counts = [(kind, sum(it.outcome is kind for it in tried)) for kind in Outcome]
    ended = ", ".join(f"{number} {kind}" for kind, number in counts if number)
    wrong = len(done.wrong)
    verdict = f"{counted(wrong, 'trial')} with something wrong" if wrong else "nothing wrong"
    left = done.planned - len(tried)
    rest = f"; {left} not tried" if left else ""
    return f"{counted(len(tried), 'fault')} tried: {ended or 'none'}; {verdict}{rest}"
