"""What a trial came to: how the command ended, what it met, what it made of that."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from llm_proxy.display import counted
from llm_proxy.verdict.attempts import Run
from llm_proxy.verdict.finding import Case, Level
from llm_proxy.verdict.judging import Verdict, verdict

BASELINE: Final = "no fault"
"""What the trial without a fault is called."""

_SUSPICIONS: Final = frozenset(("truncated-accepted", "malformed-accepted", "failed-accepted"))
"""Rules that suspect a client, below the level of an error, of having noticed nothing."""


class Outcome(StrEnum):
    """How a trial ended."""

    PASSED = "passed"
    FAILED = "failed"
    HUNG = "hung"
    """The command ran for longer than it may, and was stopped."""
    NOT_STRUCK = "not struck"
    """The fault never struck: the command's end says nothing about it."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One run of the command."""

    fault: str
    """The rule, as its author spelled it; `BASELINE` for none."""
    code: int
    """The command's exit code; that of a signal is 128 and its number."""
    seconds: float
    hung: bool
    run: Run
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
    def struck(self) -> int:
        """How many answers the fault struck."""
        return sum(any(fault.rule == self.fault for fault in it.struck) for it in self.run.entries)

    @property
    def outcome(self) -> Outcome:
        """How it ended."""
        if self.hung:
            return Outcome.HUNG
        if self.fault != BASELINE and not self.struck:
            return Outcome.NOT_STRUCK
        return Outcome.PASSED if self.code == 0 else Outcome.FAILED

    @property
    def judged(self) -> Verdict:
        """What is said of the command as a client.

        A command that fails has noticed what it met: no more than a note is left of what it is
        only suspected to have passed over.
        """
        judged = verdict(self.run.entries)
        if self.outcome is not Outcome.FAILED:
            return judged
        return replace(judged, cases=tuple(map(_noticed, judged.cases)))

    @property
    def why(self) -> str:
        """What stands behind the outcome, in a few words."""
        match self.outcome:
            case Outcome.FAILED:
                return f"failed, exit {self.code}"
            case Outcome.HUNG:
                return f"hung, stopped after {self.seconds:.0f} s"
            case Outcome.NOT_STRUCK:
                skipped = [fault.skipped for it in self.run.entries for fault in it.skipped]
                return f"not struck: {skipped[0]}" if skipped else "not struck"
            case Outcome.PASSED:
                return "passed"

    @property
    def remark(self) -> str:
        """The verdict in a few words."""
        judged = self.judged
        if not judged.faults:
            return ""
        found = judged.findings
        rules = dict.fromkeys(f"{it.finding.level} {it.rule.name}" for it in found if it.finding)
        missed = f"; {counted(self.misses, 'miss', 'misses')}" if self.misses else ""
        return (", ".join(rules) or "nothing to find fault with") + missed


def _noticed(case: Case) -> Case:
    finding = case.finding
    if finding is None or case.rule.name not in _SUSPICIONS or finding.level is Level.ERROR:
        return case
    message = f"{finding.message}, but that the command failed"
    return replace(case, finding=replace(finding, level=Level.NOTE, message=message))


@dataclass(frozen=True, slots=True)
class Chaos:
    """All trials."""

    command: tuple[str, ...]
    trials: tuple[Trial, ...]
    level: Level
    """Findings of this level and above are what it fails for."""
    survives: bool
    """Whether it fails for a command that fails under a fault, too."""
    planned: int
    """How many faults were to be tried."""

    @property
    def is_complete(self) -> bool:
        """Whether every fault of the plan was tried."""
        return len(self.trials) == 1 + self.planned

    @property
    def wrong(self) -> tuple[Trial, ...]:
        """The trials that it fails for."""
        return tuple(filter(self._is_wrong, self.trials))

    def _is_wrong(self, trial: Trial) -> bool:
        if trial.fault == BASELINE:
            return False
        if trial.outcome is Outcome.HUNG or trial.judged.reaching(self.level):
            return True
        return self.survives and trial.outcome is Outcome.FAILED
