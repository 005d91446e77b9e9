"""`chaos`: a command, run once for each fault."""

from __future__ import annotations

import asyncio
import logging
import signal
from contextlib import aclosing, suppress
from typing import Any, Final

import click

from llm_proxy import display
from llm_proxy.chaos.document import chaos_document
from llm_proxy.chaos.plan import fault_plan
from llm_proxy.chaos.trials import BASELINE, ChaosRun, FaultTrial, TrialOutcome
from llm_proxy.cli.option_types import ChoiceType, SecondsType
from llm_proxy.cli.options import server_options, settings_of
from llm_proxy.cli.output.printing import (
    Line,
    StyledText,
    print_json,
    print_lines,
    print_note,
    styled_line,
)
from llm_proxy.cli.output.progress import ProgressReporter, progress_reporter
from llm_proxy.cli.output.tables import TableColumn, print_table
from llm_proxy.cli.verdict import finding_lines
from llm_proxy.display import count_noun
from llm_proxy.errors import LlmProxyError, UsageError
from llm_proxy.faults.rule import FaultRule
from llm_proxy.shell.running.chaos import TrialCommand, run_trials
from llm_proxy.shell.running.settings import Settings
from llm_proxy.verdict.document import DEFAULT_LEVEL
from llm_proxy.verdict.finding import FindingLevel, JudgedCase

_DEFAULTS: Final[dict[str, Any]] = {"pace": "recorded,max-gap=20ms", "silence": 10.0}
"""What chaos has in place of the defaults of other commands: a trial should not take long."""
_STYLES: Final = {
    TrialOutcome.PASSED: "good",
    TrialOutcome.FAILED: "doubtful",
    TrialOutcome.HUNG: "bad",
    TrialOutcome.NOT_STRUCK: "dim",
}
_HEADS: Final = (
    TableColumn("fault"),
    TableColumn("outcome"),
    TableColumn("requests", right=True, spare=2),
    TableColumn("seconds", right=True, spare=1),
    TableColumn("verdict"),
)
_SHOWN: Final = 3
"""Pieces of evidence that are printed of one finding."""
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_LINES: Final = 15
"""Of the command's output, where it fails without any fault."""


class _ChaosCommand(click.Command):
    """One with defaults of its own for server options."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        for param in self.params:
            param.default = _DEFAULTS.get(param.name or "", param.default)


@click.command(cls=_ChaosCommand, context_settings={"allow_interspersed_args": False})
@server_options
@click.option(
    "--timeout",
    type=SecondsType(),
    default=120.0,
    show_default=True,
    help="How long the command may run in each trial, in seconds.",
)
@click.option(
    "--level",
    type=ChoiceType([finding_level.value for finding_level in FindingLevel]),
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
    scripted = any(values[item] for item in ("scenarios", "mock", "respond"))
    values["on_miss"] = values["on_miss"] or ("scenario" if scripted else "fail")
    settings = settings_of(values, command, live=False)
    rules = fault_plan(settings.faults)
    logging.disable(logging.WARNING)  # each trial has its journal; faults of ours are told
    tried = _TrialRunner(settings, TrialCommand(command, timeout), rules)
    tried.run_all()
    done = ChaosRun(command, tuple(tried.finished), FindingLevel(level), survive, len(rules))
    if as_json:
        print_json(chaos_document(done))
    else:
        _print_results(done)
    if tried.stopped_by:
        raise click.exceptions.Exit(128 + tried.stopped_by)
    raise click.exceptions.Exit(1 if done.failed_trials else 0)


class _TrialRunner:
    """The trials, as they come to an end."""

    def __init__(
        self, settings: Settings, command: TrialCommand, rules: tuple[FaultRule, ...]
    ) -> None:
        self._settings = settings
        self._command = command
        self._rules = rules
        self.finished: list[FaultTrial] = []
        self.stopped_by = 0
        """The signal that ended them early; 0 for none."""

    def run_all(self) -> None:
        """Try everything, unless a signal ends it."""
        with progress_reporter(1 + len(self._rules)) as watched, suppress(asyncio.CancelledError):
            asyncio.run(self._run_trials(watched))

    async def _run_trials(self, watched: ProgressReporter) -> None:
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
        watched.start(BASELINE)
        async with aclosing(run_trials(self._settings, self._command, self._rules)) as coming:
            names = iter([*(rule.text for rule in self._rules), ""])
            async for trial in coming:
                self.finished.append(trial)
                watched.finish(trial)
                if trial.fault == BASELINE:
                    _check_baseline(trial)
                watched.start(next(names))


def _check_baseline(baseline: FaultTrial) -> None:
    """Raises `LlmProxyError` where trials would say nothing."""
    if baseline.timed_out or baseline.code:
        said = map(display.escape_line, baseline.output.splitlines()[-_LINES:])
        lines = "".join(f"\n  {text}" for text in said)
        raise LlmProxyError(
            f"without any fault the command {baseline.reason}: mend that first; it printed{lines}"
        )
    if not baseline.requests:
        raise LlmProxyError(
            "the command asked nothing of the proxy: does it read OPENAI_BASE_URL, or its "
            "provider's twin?"
        )


def _print_results(done: ChaosRun) -> None:
    rows = [_trial_row(fault_trial) for fault_trial in done.trials]
    print_table(_HEADS, rows)
    for name, found in _findings_by_rule(done).items():
        faults = "; ".join(trial.fault for trial, _ in found)
        _, case = found[0]
        if case.finding is not None:
            print_lines(
                [
                    styled_line(""),
                    styled_line(StyledText(name, "bold"), f", under {display.escape_line(faults)}"),
                ]
            )
            print_lines(finding_lines(case, case.finding, _SHOWN))
    print_note(_summary_line(done))


def _findings_by_rule(done: ChaosRun) -> dict[str, list[tuple[FaultTrial, JudgedCase]]]:
    found: dict[str, list[tuple[FaultTrial, JudgedCase]]] = {}
    for trial in done.trials:
        for case in trial.verdict.findings_at_least(done.level):
            items = found.setdefault(case.rule.name, [])
            if trial not in (fault_trial for fault_trial, _ in items):
                items.append((trial, case))
    return found


def _trial_row(fault_trial: FaultTrial) -> Line:
    return (
        StyledText(fault_trial.fault),
        StyledText(fault_trial.reason, _STYLES[fault_trial.outcome]),
        StyledText(str(fault_trial.requests)),
        StyledText(f"{fault_trial.seconds:.1f}"),
        StyledText(fault_trial.verdict_summary),
    )


def _summary_line(done: ChaosRun) -> str:
    tried = [trial for trial in done.trials if trial.fault != BASELINE]
    counts = [
        (kind, sum(fault_trial.outcome is kind for fault_trial in tried)) for kind in TrialOutcome
    ]
    ended = ", ".join(f"{number} {kind}" for kind, number in counts if number)
    wrong = len(done.failed_trials)
    verdict = f"{count_noun(wrong, 'trial')} with something wrong" if wrong else "nothing wrong"
    left = done.planned_count - len(tried)
    rest = f"; {left} not tried" if left else ""
    return f"{count_noun(len(tried), 'fault')} tried: {ended or 'none'}; {verdict}{rest}"
