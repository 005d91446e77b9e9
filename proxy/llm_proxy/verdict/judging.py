"""Applies all rules to all retry chains of a run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from llm_proxy.verdict.attempts import JournalAttempt
from llm_proxy.verdict.finding import FindingLevel, JudgedCase
from llm_proxy.verdict.retry_chains import retry_chains
from llm_proxy.verdict.rules import RULES


@dataclass(frozen=True, slots=True)
class RunVerdict:
    """The results of all rules for the clients of a run, with counts."""

    cases: tuple[JudgedCase, ...]
    """One case for each rule and each chain that it applies to, in the order of the rules."""
    fault_count: int
    """How many faults clients received."""
    skipped_fault_count: int
    """How many faults were skipped, since they were not applicable."""
    faulted_request_count: int
    """How many requests received a fault; all attempts of a request count once."""
    faulted_session_count: int
    """How many sessions these requests belong to."""

    @property
    def cases_with_findings(self) -> tuple[JudgedCase, ...]:
        """The cases with a finding, most severe first."""
        cases_with_finding = [
            judged_case for judged_case in self.cases if judged_case.finding is not None
        ]
        return tuple(
            sorted(
                cases_with_finding, key=lambda judged_case: -_finding_level(judged_case).severity
            )
        )

    def cases_at_or_above(self, level: FindingLevel) -> tuple[JudgedCase, ...]:
        """The cases with a finding of this level or above, most severe first."""
        return tuple(
            case for case in self.cases_with_findings if _finding_level(case).is_at_least(level)
        )

    def count_findings(self, level: FindingLevel) -> int:
        """The number of findings of exactly this level."""
        return sum(_finding_level(case) is level for case in self.cases_with_findings)


def judge_run(attempts: Iterable[JournalAttempt]) -> RunVerdict:
    """The verdict on the clients that made these attempts, in any order."""
    attempts = list(attempts)
    faulty_chains = [chain for chain in retry_chains(attempts) if chain.faults]
    cases = [
        JudgedCase(rule, chain, rule.judge_chain(chain))
        for rule in RULES
        for chain in faulty_chains
        if rule.applies_to_chain(chain)
    ]
    return RunVerdict(
        cases=tuple(cases),
        fault_count=sum(len(retry_chain.faults) for retry_chain in faulty_chains),
        skipped_fault_count=sum(len(attempt.skipped_faults) for attempt in attempts),
        faulted_request_count=len(faulty_chains),
        faulted_session_count=len(
            {retry_chain.first_attempt.session for retry_chain in faulty_chains}
        ),
    )


def _finding_level(case: JudgedCase) -> FindingLevel:
    return FindingLevel.NOTE if case.finding is None else case.finding.level
