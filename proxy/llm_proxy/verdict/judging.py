"""All rules, held against all that a run shows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from llm_proxy.verdict.attempts import Attempt
from llm_proxy.verdict.finding import Case, Level
from llm_proxy.verdict.retry_chains import chains
from llm_proxy.verdict.rules import RULES


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is said of the clients of a run, and how much was seen of them."""

    cases: tuple[Case, ...]
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
    def findings(self) -> tuple[Case, ...]:
        """The cases with a finding, the worst first."""
        found = [it for it in self.cases if it.finding is not None]
        return tuple(sorted(found, key=lambda it: -_level(it).weight))

    def reaching(self, level: Level) -> tuple[Case, ...]:
        """The findings of this level and above."""
        return tuple(it for it in self.findings if _level(it).reaches(level))

    def count(self, level: Level) -> int:
        """The findings of just this level."""
        return sum(_level(it) is level for it in self.findings)


def verdict(attempts: Iterable[Attempt]) -> Verdict:
    """The verdict on the clients that made these attempts; their order does not count."""
    attempts = list(attempts)
    watched = [it for it in chains(attempts) if it.faults]
    cases = [
        Case(rule, chain, rule.judge(chain))
        for rule in RULES
        for chain in watched
        if rule.concerns(chain)
    ]
    return Verdict(
        cases=tuple(cases),
        faults=sum(len(it.faults) for it in watched),
        skipped=sum(len(it.skipped) for it in attempts),
        requests=len(watched),
        sessions=len({it.first.session for it in watched}),
    )


def _level(case: Case) -> Level:
    return Level.NOTE if case.finding is None else case.finding.level
