"""The result of a trial: exit code, injected faults, outcome and verdict."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from llm_proxy.display import count_noun
from llm_proxy.verdict.attempts import JournalRun
from llm_proxy.verdict.finding import FindingLevel, JudgedCase
from llm_proxy.verdict.judging import RunVerdict, judge_run

BASELINE: Final = "no fault"
"""What the trial without a fault is called."""

_SUSPICIONS: Final = frozenset(("truncated-accepted", "malformed-accepted", "failed-accepted"))
"""Rules that suspect a client, below the level of an error, of having noticed nothing."""


class TrialOutcome(StrEnum):
    """How a trial ended."""

    PASSED = "passed"
    FAILED = "failed"
    HUNG = "hung"
    """The command ran for longer than it may, and was stopped."""
    NOT_STRUCK = "not struck"
    """The fault never struck: the command's end says nothing about it."""


@dataclass(frozen=True, slots=True)
class FaultTrial:
    """One run of the command."""

    fault: str
    """The rule, as its author spelled it; `BASELINE` for none."""
    code: int
    """The command's exit code; that of a signal is 128 and its number."""
    seconds: float
    timed_out: bool
    run: JournalRun
    """What the journal shows."""
    misses: int
    """Requests that no cassette answered: the fault led the command to ask something else."""
    output: str
    """The last of what the command printed."""

    @property
    def requests(self) -> int:
        """How many reached the proxy."""
        return self.run.requests

    @property
    def injected_count(self) -> int:
        """How many answers the fault struck."""
        return sum(
            any(fault.rule == self.fault for fault in entry.injected_faults)
            for entry in self.run.entries
        )

    @property
    def outcome(self) -> TrialOutcome:
        """How it ended."""
        if self.timed_out:
            return TrialOutcome.HUNG
        if self.fault != BASELINE and not self.injected_count:
            return TrialOutcome.NOT_STRUCK
        return TrialOutcome.PASSED if self.code == 0 else TrialOutcome.FAILED

    @property
    def verdict(self) -> RunVerdict:
        """What is said of the command as a client.

        A command that fails has noticed what it met: no more than a note is left of what it is
        only suspected to have passed over.
        """
        judged = judge_run(self.run.entries)
        if self.outcome is not TrialOutcome.FAILED:
            return judged
        return replace(judged, cases=tuple(map(_was_noticed, judged.cases)))

    @property
    def reason(self) -> str:
        """What stands behind the outcome, in a few words."""
        match self.outcome:
            case TrialOutcome.FAILED:
                return f"failed, exit {self.code}"
            case TrialOutcome.HUNG:
                return f"hung, stopped after {self.seconds:.0f} s"
            case TrialOutcome.NOT_STRUCK:
                skipped = [
                    fault.skipped for entry in self.run.entries for fault in entry.skipped_faults
                ]
                return f"not struck: {skipped[0]}" if skipped else "not struck"
            case TrialOutcome.PASSED:
                return "passed"

    @property
    def verdict_summary(self) -> str:
        """The verdict in a few words."""
        judged = self.verdict
        if not judged.faults:
            return ""
        found = judged.findings
        rules = dict.fromkeys(
            f"{judged_case.finding.level} {judged_case.rule.name}"
            for judged_case in found
            if judged_case.finding
        )
        missed = f"; {count_noun(self.misses, 'miss', 'misses')}" if self.misses else ""
        return (", ".join(rules) or "nothing to find fault with") + missed


def _was_noticed(case: JudgedCase) -> JudgedCase:
    finding = case.finding
    if finding is None or case.rule.name not in _SUSPICIONS or finding.level is FindingLevel.ERROR:
        return case
    message = f"{finding.message}, but that the command failed"
    return replace(case, finding=replace(finding, level=FindingLevel.NOTE, message=message))


@dataclass(frozen=True, slots=True)
class ChaosRun:
    """All trials."""

    command: tuple[str, ...]
    trials: tuple[FaultTrial, ...]
    level: FindingLevel
    """Findings of this level and above are what it fails for."""
    must_survive: bool
    """Whether it fails for a command that fails under a fault, too."""
    planned_count: int
    """How many faults were to be tried."""

    @property
    def is_complete(self) -> bool:
        """Whether every fault of the plan was tried."""
        return len(self.trials) == 1 + self.planned_count

    @property
    def failed_trials(self) -> tuple[FaultTrial, ...]:
        """The trials that it fails for."""
        return tuple(filter(self._is_failed, self.trials))

    def _is_failed(self, trial: FaultTrial) -> bool:
        if trial.fault == BASELINE:
            return False
        if trial.outcome is TrialOutcome.HUNG or trial.verdict.findings_at_least(self.level):
            return True
        return self.must_survive and trial.outcome is TrialOutcome.FAILED
