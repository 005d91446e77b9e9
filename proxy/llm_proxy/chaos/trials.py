"""The result of a trial: exit code, injected faults, outcome and verdict."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from llm_proxy.display import count_with_noun
from llm_proxy.journal_document import JournalDocument
from llm_proxy.verdict.findings import FindingLevel
from llm_proxy.verdict.judging import JudgedCase, RunVerdict, judge_run

BASELINE_NAME: Final = "no fault"
"""The `rule_text` of the trial without a fault."""

_SUSPICION_RULES: Final = frozenset(("truncated-accepted", "malformed-accepted", "failed-accepted"))
"""Verdict rules whose findings below `ERROR` only suspect that a client did not notice a fault."""


class TrialOutcome(StrEnum):
    """The outcome of a trial."""

    PASSED = "passed"
    FAILED = "failed"
    HUNG = "hung"
    """The command exceeded its time limit and was stopped."""
    NOT_INJECTED = "not struck"
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
        return self.journal.requests

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
        run_verdict = judge_run(self.journal.entries)
        if self.outcome is not TrialOutcome.FAILED:
            return run_verdict
        return replace(run_verdict, cases=tuple(map(_downgrade_suspicion, run_verdict.cases)))

    @property
    def outcome_text(self) -> str:
        """The outcome with its reason, as a short phrase."""
        match self.outcome:
            case TrialOutcome.FAILED:
                return f"failed, exit {self.exit_code}"
            case TrialOutcome.HUNG:
                return f"hung, stopped after {self.duration_s:.0f} s"
            case TrialOutcome.NOT_INJECTED:
                skipped = [
                    fault.skipped
                    for entry in self.journal.entries
                    for fault in entry.skipped_faults
                ]
                return f"not struck: {skipped[0]}" if skipped else "not struck"
            case TrialOutcome.PASSED:
                return "passed"

    @property
    def verdict_summary(self) -> str:
        """The findings and the number of misses as a short phrase; empty without faults."""
        run_verdict = self.verdict
        if not run_verdict.fault_count:
            return ""
        findings = run_verdict.cases_with_findings
        finding_names = dict.fromkeys(
            f"{judged_case.finding.level} {judged_case.rule.name}"
            for judged_case in findings
            if judged_case.finding
        )
        miss_text = (
            f"; {count_with_noun(self.miss_count, 'miss', 'misses')}" if self.miss_count else ""
        )
        return (", ".join(finding_names) or "nothing to find fault with") + miss_text


def _downgrade_suspicion(case: JudgedCase) -> JudgedCase:
    finding = case.finding
    if (
        finding is None
        or case.rule.name not in _SUSPICION_RULES
        or finding.level is FindingLevel.ERROR
    ):
        return case
    message = f"{finding.message}, but that the command failed"
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
        return tuple(filter(self._is_failed, self.trials))

    def _is_failed(self, trial: FaultTrial) -> bool:
        if trial.rule_text == BASELINE_NAME:
            return False
        if trial.outcome is TrialOutcome.HUNG or trial.verdict.cases_at_or_above(
            self.failing_level
        ):
            return True
        return self.must_survive and trial.outcome is TrialOutcome.FAILED
