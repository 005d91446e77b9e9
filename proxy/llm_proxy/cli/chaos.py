"""`chaos`: runs a command once for each fault, and prints how it ended."""

from __future__ import annotations

import logging
import os
from collections import Counter
from contextlib import aclosing
from typing import Any, Final

import click

from llm_proxy import display
from llm_proxy.chaos import (
    BASELINE_NAME,
    ChaosRun,
    FaultTrial,
    TrialOutcome,
    chaos_result_document,
    fault_plan,
)
from llm_proxy.cli.commands import GroupedCommand
from llm_proxy.cli.interruption import run_until_signal
from llm_proxy.cli.options import (
    SecondsType,
    build_settings,
    grouped_option,
    json_option,
    server_options,
    unknown_variables,
)
from llm_proxy.cli.output import (
    ProgressReporter,
    StyledText,
    TableColumn,
    print_json,
    print_lines,
    print_note,
    print_table,
    progress_reporter,
)
from llm_proxy.cli.serve import check_offline_on_miss
from llm_proxy.cli.verdict import finding_lines, level_option
from llm_proxy.display import count_with_noun
from llm_proxy.errors import LlmProxyError, UsageError
from llm_proxy.faults.rule import FaultRule
from llm_proxy.providers import BASE_URL_ADVICE
from llm_proxy.shell.running.chaos import TrialCommand, run_trials
from llm_proxy.shell.running.settings import Settings
from llm_proxy.verdict.findings import FindingLevel
from llm_proxy.verdict.judging import JudgedCase

_DEFAULTS: Final[dict[str, Any]] = {"pace": "recorded,max-gap=20ms", "silence": 10.0}
"""Defaults of server options that differ from other commands: a trial should be short."""
_STYLES: Final = {
    TrialOutcome.PASSED: "good",
    TrialOutcome.FAILED: "doubtful",
    TrialOutcome.HUNG: "bad",
    TrialOutcome.NOT_INJECTED: "dim",
}
_COLUMNS: Final = (
    TableColumn("fault"),
    TableColumn("outcome"),
    TableColumn("requests", is_right_aligned=True, drop_priority=2),
    TableColumn("seconds", is_right_aligned=True, drop_priority=1),
    TableColumn("verdict"),
)
_MAX_SHOWN_EVIDENCE: Final = 3
"""Pieces of evidence that are printed for one finding."""
_MAX_OUTPUT_LINES: Final = 15
"""Lines of the command's output that are shown where it fails without any fault."""


class _ChaosCommand(GroupedCommand):
    """A click command with its own defaults for server options."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        for param in self.params:
            param.default = _DEFAULTS.get(param.name or "", param.default)


_check_option = grouped_option("Checks and reports")


@click.command(cls=_ChaosCommand, context_settings={"allow_interspersed_args": False})
@server_options("chaos")
@_check_option("--timeout", type=SecondsType(), default=120.0, show_default=True,
               help="Time limit for each run.")  # fmt: skip
@level_option
@_check_option("--survive", is_flag=True, help="Also exit with code 1 if the command fails.")
@json_option
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND...")
def chaos(
    command: tuple[str, ...], *, timeout: float, level: str, survive: bool, as_json: bool,
    **values: Any,
) -> None:  # fmt: skip
    r"""Run a command once for each fault, and report how the command handled the fault.

    The command first runs without faults, and must succeed. Then it runs once for each fault, with
    the same cassettes. Select faults with --fault or --faults; by default, every kind
    of fault is used.

    \b
    Examples:
      llm-proxy chaos -- pytest tests/test_chat.py
      llm-proxy chaos --fault 'rate-limit,first=2' --fault truncate -- python app.py
      llm-proxy chaos --scenarios scenarios/ --survive -- pytest tests/
      llm-proxy chaos --json -- npm test > chaos.json

    The output is a table with the outcome of each run and the findings of llm-proxy verdict. The
    exit code is 1 if a run hangs, or if a finding has the level of --level or a higher level. The
    command llm-proxy chaos records no responses and contacts no providers.
    """
    if not command:
        raise UsageError("COMMAND is missing; for example: llm-proxy chaos -- pytest tests/")
    check_offline_on_miss(values)
    for name, problem in unknown_variables(os.environ).items():
        print_note(f"warning: {name}: {problem}")
    settings = build_settings(values, command, contacts_provider=False)
    rules = fault_plan(settings.faults)
    logging.disable(logging.WARNING)  # each trial has its journal; our errors are still logged
    trials: list[FaultTrial] = []
    stopped: click.exceptions.Exit | None = None
    try:
        _run_trials(settings, TrialCommand(command, timeout), rules, trials)
    except click.exceptions.Exit as error:
        stopped = error
    chaos_run = ChaosRun(command, tuple(trials), FindingLevel(level), survive, len(rules))
    if as_json:
        print_json(chaos_result_document(chaos_run))
    else:
        _print_results(chaos_run)
    raise stopped or click.exceptions.Exit(1 if chaos_run.failed_trials else 0)


def _run_trials(
    settings: Settings,
    command: TrialCommand,
    rules: tuple[FaultRule, ...],
    finished: list[FaultTrial],
) -> None:
    """Run all trials; adds each to `finished` when it is."""

    async def run(progress: ProgressReporter) -> None:
        progress.start_step(BASELINE_NAME)
        names = iter([*(rule.text for rule in rules), ""])
        async with aclosing(run_trials(settings, command, rules)) as trials:
            async for trial in trials:
                finished.append(trial)
                progress.finish_step(trial.rule_text, trial.outcome_with_reason, trial.duration_s)
                if trial.rule_text == BASELINE_NAME:
                    _check_baseline(trial)
                progress.start_step(next(names))

    with progress_reporter(1 + len(rules)) as progress:
        run_until_signal(run(progress))


def _check_baseline(baseline: FaultTrial) -> None:
    """Raise `LlmProxyError` if the command fails, or sends no request, without any fault."""
    if baseline.is_timed_out or baseline.exit_code:
        last_lines = map(
            display.escape_line, baseline.output_tail.splitlines()[-_MAX_OUTPUT_LINES:]
        )
        lines = "".join(f"\n  {text}" for text in last_lines)
        raise LlmProxyError(
            f"the command {baseline.outcome_with_reason} even without a fault; fix the command "
            f"first{'; output:' if lines else ''}{lines}"
        )
    if not baseline.request_count:
        raise LlmProxyError(
            f"no request reached llm-proxy; check that the command {BASE_URL_ADVICE}"
        )


def _print_results(chaos_run: ChaosRun) -> None:
    rows = [
        (
            trial.rule_text,
            StyledText(trial.outcome_with_reason, _STYLES[trial.outcome]),
            str(trial.request_count),
            f"{trial.duration_s:.1f}",
            trial.verdict_summary,
        )
        for trial in chaos_run.trials
    ]
    print_table(_COLUMNS, rows)
    cases_by_rule: dict[str, dict[int, JudgedCase]] = {}
    for number, trial in enumerate(chaos_run.trials):
        for case in trial.verdict.cases_at_or_above(chaos_run.failing_level):
            cases_by_rule.setdefault(case.rule.name, {}).setdefault(number, case)
    for name, case_by_trial in cases_by_rule.items():
        first_case = next(iter(case_by_trial.values()))
        if first_case.finding is not None:
            rules = (chaos_run.trials[number].rule_text for number in case_by_trial)
            faults = display.escape_line("; ".join(rules))
            print_lines(["", (StyledText(name, "bold"), f", with {faults}")])
            print_lines(finding_lines(first_case, first_case.finding, _MAX_SHOWN_EVIDENCE))
    print_note(_summary_line(chaos_run))


def _summary_line(chaos_run: ChaosRun) -> str:
    tried = [trial for trial in chaos_run.trials if trial.rule_text != BASELINE_NAME]
    counts = Counter(trial.outcome for trial in tried)
    ended = ", ".join(f"{counts[kind]} {kind}" for kind in TrialOutcome if counts[kind])
    wrong = len(chaos_run.failed_trials)
    left = chaos_run.planned_count - len(tried)
    parts = [f"{count_with_noun(len(tried), 'fault')} tried{': ' if ended else ''}{ended}"]
    if wrong:
        parts.append(f"{count_with_noun(wrong, 'fault')} not handled")
    parts.append(f"{left} not tried" if left else "" if wrong else "ok")
    return "; ".join(filter(None, parts))
