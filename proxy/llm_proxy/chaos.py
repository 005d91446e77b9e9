"""Runs a command once for each fault of a plan and judges the results.

Each request gets the fault, and a client that retries gets through: faults that replace the
response are injected into the first two attempts of each request, other faults into the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from llm_proxy.display import count_with_noun
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.grammar import parse_rule
from llm_proxy.faults.kind import ReplaceResponse
from llm_proxy.faults.kinds import FAULT_KINDS
from llm_proxy.faults.rule import FaultRule
from llm_proxy.journal_document import JournalDocument
from llm_proxy.verdict.findings import FindingLevel
from llm_proxy.verdict.judging import JudgedCase, RunVerdict, judge_run, verdict_document

BASELINE_NAME: Final = "no fault"
"""The `rule_text` of the trial without a fault."""
DOCUMENT_VERSION: Final = 1
"""The version of the document: fields may be added to it, but none changes its meaning."""

_FIRST_TWO_ATTEMPTS: Final = "first=2,per=request"
"""As often as the SDKs of OpenAI and Anthropic retry by default."""
_FIRST_ATTEMPT: Final = "first=1,per=request"
_SUSPICION_RULES: Final = frozenset(("truncated-accepted", "malformed-accepted", "failed-accepted"))
"""Verdict rules whose findings below `ERROR` only suspect that a client did not notice a fault."""


def fault_plan(rules: Sequence[FaultRule]) -> tuple[FaultRule, ...]:
    """The faults to try, in order: the given rules, else one example of every fault kind."""
    if rules:
        return tuple(rules)
    examples: list[FaultRule] = []
    for kind in FAULT_KINDS.values():
        rule = parse_rule(kind.example)
        if kind.effect is not FaultEffect.SLOWED and kind.scope == "request":
            is_replacement = isinstance(rule.mechanism, ReplaceResponse)
            attempts = _FIRST_TWO_ATTEMPTS if is_replacement else _FIRST_ATTEMPT
            rule = parse_rule(f"{kind.example},{attempts}")
        examples.append(rule)
    return tuple(examples)


class TrialOutcome(StrEnum):
    """The outcome of a trial."""

    PASSED = "passed"
    FAILED = "failed"
    HUNG = "hung"
    """The command exceeded its time limit and was stopped."""
    NOT_INJECTED = "not injected"
    """The fault was never injected, so the exit code shows nothing about it."""


@dataclass(frozen=True, slots=True)
class FaultTrial:
    """One run of the command, under one fault or without any."""

    rule_text: str
    """The text of the fault rule, as its author wrote it; `BASELINE_NAME` for none."""
    exit_code: int
    """The command's exit code; 128 plus the number of the signal that ended it."""
    duration_s: float
    is_timed_out: bool
    journal: JournalDocument
    """The journal of the proxy during the run."""
    miss_count: int
    """Requests without a matching cassette: the fault made the command send other requests."""
    output_tail: str
    """The end of the command's output."""

    @property
    def request_count(self) -> int:
        """How many requests reached the proxy."""
        return self.journal.request_count

    @property
    def injected_count(self) -> int:
        """How many responses the fault was injected into."""
        return sum(
            any(fault.rule == self.rule_text for fault in entry.injected_faults)
            for entry in self.journal.entries
        )

    @property
    def outcome(self) -> TrialOutcome:
        """The outcome, from time limit, injections and exit code."""
        if self.is_timed_out:
            return TrialOutcome.HUNG
        if self.rule_text != BASELINE_NAME and not self.injected_count:
            return TrialOutcome.NOT_INJECTED
        return TrialOutcome.PASSED if self.exit_code == 0 else TrialOutcome.FAILED

    @property
    def verdict(self) -> RunVerdict:
        """The verdict on the command as a client.

        A command that fails has noticed the fault: mere suspicions that it did not are reduced to
        notes.
        """
        run_verdict = judge_run(self.journal.entries, self.journal.listener_closures)
        if self.outcome is not TrialOutcome.FAILED:
            return run_verdict
        return replace(run_verdict, cases=tuple(map(_downgrade_suspicion, run_verdict.cases)))

    @property
    def outcome_with_reason(self) -> str:
        """The outcome with its reason, as a short phrase."""
        match self.outcome:
            case TrialOutcome.FAILED:
                return f"failed (exit code {self.exit_code})"
            case TrialOutcome.HUNG:
                return f"hung (stopped after {self.duration_s:.0f} s)"
            case TrialOutcome.NOT_INJECTED:
                for entry in self.journal.entries:
                    for fault in entry.skipped_faults:
                        return f"not injected: {fault.skipped}"
                return "not injected"
            case TrialOutcome.PASSED:
                return "passed"

    @property
    def verdict_summary(self) -> str:
        """The findings and the number of misses as a short phrase; empty without faults."""
        run_verdict = self.verdict
        if not run_verdict.fault_count:
            return ""
        findings = dict.fromkeys(
            f"{case.finding.level} {case.rule.name}"
            for case in run_verdict.cases_with_findings
            if case.finding
        )
        summary = ", ".join(findings) or "ok"
        if self.miss_count:
            summary += f"; {count_with_noun(self.miss_count, 'miss', 'misses')}"
        return summary


def _downgrade_suspicion(case: JudgedCase) -> JudgedCase:
    finding = case.finding
    if finding is None or finding.level is FindingLevel.ERROR:
        return case
    if case.rule.name not in _SUSPICION_RULES:
        return case
    message = f"{finding.message}; the command failed, so it probably noticed the fault"
    return replace(case, finding=replace(finding, level=FindingLevel.NOTE, message=message))


@dataclass(frozen=True, slots=True)
class ChaosRun:
    """The trials of a command, and what makes them fail."""

    command: tuple[str, ...]
    trials: tuple[FaultTrial, ...]
    failing_level: FindingLevel
    """Findings of this level or above make a trial fail."""
    must_survive: bool
    """Whether a command that fails under a fault makes its trial fail, too."""
    planned_count: int
    """How many faults the plan contains."""

    @property
    def is_complete(self) -> bool:
        """Whether the baseline and every fault of the plan were tried."""
        return len(self.trials) == 1 + self.planned_count

    @property
    def failed_trials(self) -> tuple[FaultTrial, ...]:
        """The trials that make the run fail."""
        return tuple(
            trial
            for trial in self.trials
            if trial.rule_text != BASELINE_NAME
            and (
                trial.outcome is TrialOutcome.HUNG
                or trial.verdict.cases_at_or_above(self.failing_level)
                or (self.must_survive and trial.outcome is TrialOutcome.FAILED)
            )
        )


def chaos_result_document(chaos_run: ChaosRun) -> dict[str, Any]:
    """The result as one JSON document; `ok` is whether all trials were run, and none failed."""
    level = chaos_run.failing_level
    return {
        "chaos": DOCUMENT_VERSION,
        "ok": not chaos_run.failed_trials and chaos_run.is_complete,
        "level": level.value,
        "command": list(chaos_run.command),
        "planned": chaos_run.planned_count,
        "trials": [
            {
                "fault": trial.rule_text,
                "outcome": trial.outcome.value,
                "summary": trial.outcome_with_reason,
                "exit_code": trial.exit_code,
                "seconds": round(trial.duration_s, 3),
                "requests": trial.request_count,
                "injected": trial.injected_count,
                "misses": trial.miss_count,
                "verdict": verdict_document(trial.verdict, level),
                "output": trial.output_tail,
            }
            for trial in chaos_run.trials
        ],
    }
