"""The verdict as one JSON document; see `docs/verdict.md`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

from llm_proxy.verdict.finding import FindingLevel, JudgedCase, VerdictFinding
from llm_proxy.verdict.judging import RunVerdict

VERSION: Final = 1
"""Of the document: a field may be added, and none changes its meaning, while it stays the same."""
DEFAULT_LEVEL: Final = FindingLevel.WARNING
"""The findings that a run fails for, where nobody chooses."""


def verdict_document(
    run_verdict: RunVerdict, level: FindingLevel = DEFAULT_LEVEL
) -> dict[str, Any]:
    """The document; `ok` is whether there is no finding of this level or above."""
    return {
        "verdict": VERSION,
        "ok": not run_verdict.findings_at_least(level),
        "level": level.value,
        "faults": run_verdict.faults,
        "skipped": run_verdict.skipped,
        "requests": run_verdict.requests,
        "sessions": run_verdict.sessions,
        "findings": [
            _finding_document(case, case.finding) for case in run_verdict.findings if case.finding
        ],
    }


def _finding_document(case: JudgedCase, finding: VerdictFinding) -> dict[str, Any]:
    first = case.chain.first_attempt
    return {
        "rule": case.rule.name,
        "level": finding.level.value,
        "message": finding.message,
        "advice": case.rule.advice,
        "session": first.session,
        "method": first.method,
        "path": first.path,
        "model": first.model,
        "key": first.key,
        "attempts": [attempt.number for attempt in case.chain.attempts],
        "evidence": [asdict(finding_evidence) for finding_evidence in finding.evidence],
    }
