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
    """What is said of the clients of a run, and how much was seen of them."""

    cases: tuple[JudgedCase, ...]
    """Each rule with each chain that it concerns, in the order of the rules."""
    faults: int
    """How many faults clients met."""
    skipped: int
    """How many were meant, and had no meaning where they should have struck."""
    requests: int
    """How many requests met a fault, all attempts of one counted once."""
    sessions: int
    """How many sessions those belong to."""

    @property
    def findings(self) -> tuple[JudgedCase, ...]:
        """The cases with a finding, the worst first."""
        found = [case_ for case_ in self.cases if case_.finding is not None]
        return tuple(sorted(found, key=lambda judged_case: -_finding_level(judged_case).severity))

    def findings_at_least(self, level: FindingLevel) -> tuple[JudgedCase, ...]:
        """The findings of this level and above."""
        return tuple(
            finding for finding in self.findings if _finding_level(finding).is_at_least(level)
        )

    def count(self, level: FindingLevel) -> int:
        """The findings of just this level."""
        return sum(_finding_level(finding) is level for finding in self.findings)


def judge_run(attempts: Iterable[JournalAttempt]) -> RunVerdict:
    """The verdict on the clients that made these attempts; their order does not count."""
    attempts = list(attempts)
    watched = [retry_chain for retry_chain in retry_chains(attempts) if retry_chain.faults]
    cases = [
        JudgedCase(rule, chain, rule.judge(chain))
        for rule in RULES
        for chain in watched
        if rule.concerns(chain)
    ]
    return RunVerdict(
        cases=tuple(cases),
        faults=sum(len(retry_chain.faults) for retry_chain in watched),
        skipped=sum(len(attempt.skipped_faults) for attempt in attempts),
        requests=len(watched),
        sessions=len({retry_chain.first_attempt.session for retry_chain in watched}),
    )


def _finding_level(case: JudgedCase) -> FindingLevel:
    return FindingLevel.NOTE if case.finding is None else case.finding.level
