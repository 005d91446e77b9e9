"""The verdict as one JSON document; see `docs/verdict.md`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

from llm_proxy.verdict.finding import FindingLevel, JudgedCase, VerdictFinding
from llm_proxy.verdict.judging import RunVerdict

DOCUMENT_VERSION: Final = 1
"""The version of the document: fields may be added to it, but none changes its meaning."""
DEFAULT_LEVEL: Final = FindingLevel.WARNING
"""The level from which findings make a run fail by default."""


def verdict_document(
    run_verdict: RunVerdict, level: FindingLevel = DEFAULT_LEVEL
) -> dict[str, Any]:
    """The JSON document; `ok` is whether there is no finding of this level or above."""
    return {
        "verdict": DOCUMENT_VERSION,
        "ok": not run_verdict.cases_at_or_above(level),
        "level": level.value,
        "faults": run_verdict.fault_count,
        "skipped": run_verdict.skipped_fault_count,
        "requests": run_verdict.faulted_request_count,
        "sessions": run_verdict.faulted_session_count,
        "findings": [
            _finding_document(case, case.finding)
            for case in run_verdict.cases_with_findings
            if case.finding
        ],
    }


def _finding_document(case: JudgedCase, finding: VerdictFinding) -> dict[str, Any]:
    first_attempt = case.chain.first_attempt
    return {
        "rule": case.rule.name,
        "level": finding.level.value,
        "message": finding.message,
        "advice": case.rule.advice,
        "session": first_attempt.session,
        "method": first_attempt.method,
        "path": first_attempt.path,
        "model": first_attempt.model,
        "key": first_attempt.key,
        "attempts": [attempt.number for attempt in case.chain.attempts],
        "evidence": [asdict(evidence) for evidence in finding.evidence],
    }
