"""Applies all rules to all retry chains of a run: the verdict, also as one JSON document."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from llm_proxy.journal_document import JournalEntry, ListenerClosure
from llm_proxy.verdict.findings import FindingLevel, VerdictFinding
from llm_proxy.verdict.retry_chains import RetryChain, retry_chains
from llm_proxy.verdict.rules import RULES, VerdictRule

DOCUMENT_VERSION: Final = 1
"""The version of the document: fields may be added to it, but none changes its meaning."""
DEFAULT_LEVEL: Final = FindingLevel.WARNING
"""The level from which findings make a run fail by default."""


@dataclass(frozen=True, slots=True)
class JudgedCase:
    """The result of one rule for one chain that it applies to."""

    rule: VerdictRule
    chain: RetryChain
    finding: VerdictFinding | None
    """None where the client did nothing wrong."""

    @property
    def severity(self) -> int:
        """The severity of the finding; -1 where there is none."""
        return -1 if self.finding is None else self.finding.level.severity


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
        cases = [case for case in self.cases if case.finding is not None]
        return tuple(sorted(cases, key=lambda case: -case.severity))

    def cases_at_or_above(self, level: FindingLevel) -> tuple[JudgedCase, ...]:
        """The cases with a finding of this level or above, most severe first."""
        return tuple(case for case in self.cases_with_findings if case.severity >= level.severity)

    def count_findings(self, level: FindingLevel) -> int:
        """The number of findings of exactly this level."""
        return sum(case.severity == level.severity for case in self.cases)


def judge_run(
    attempts: Iterable[JournalEntry], listener_closures: Sequence[ListenerClosure] = ()
) -> RunVerdict:
    """The verdict on the clients that made these attempts, in any order."""
    attempts = list(attempts)
    faulty_chains = [chain for chain in retry_chains(attempts, listener_closures) if chain.faults]
    return RunVerdict(
        cases=tuple(
            JudgedCase(rule, chain, rule.judge_chain(chain))
            for rule in RULES
            for chain in faulty_chains
            if rule.applies_to_chain(chain)
        ),
        fault_count=sum(len(chain.faults) for chain in faulty_chains),
        skipped_fault_count=sum(len(attempt.skipped_faults) for attempt in attempts),
        faulted_request_count=len(faulty_chains),
        faulted_session_count=len({chain.first_attempt.session for chain in faulty_chains}),
    )


def verdict_document(
    run_verdict: RunVerdict, level: FindingLevel = DEFAULT_LEVEL
) -> dict[str, Any]:
    """The JSON document of a verdict; `ok`: there is no finding of this level or above."""
    return {
        "verdict": DOCUMENT_VERSION,
        "ok": not run_verdict.cases_at_or_above(level),
        "level": level.value,
        "faults": run_verdict.fault_count,
        "skipped": run_verdict.skipped_fault_count,
        "requests": run_verdict.faulted_request_count,
        "sessions": run_verdict.faulted_session_count,
        "findings": [
            {
                "rule": case.rule.name,
                "level": finding.level.value,
                "message": finding.message,
                "advice": case.rule.advice,
                "session": case.chain.first_attempt.session,
                "method": case.chain.first_attempt.method,
                "path": case.chain.first_attempt.path,
                "model": case.chain.first_attempt.model,
                "key": case.chain.first_attempt.key,
                "attempts": [attempt.number for attempt in case.chain.attempts],
                "evidence": [asdict(evidence) for evidence in finding.evidence],
            }
            for case in run_verdict.cases_with_findings
            if (finding := case.finding) is not None
        ],
    }
