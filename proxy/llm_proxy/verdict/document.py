"""The verdict as one JSON document; `docs/verdict.md` describes it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

from llm_proxy.verdict.finding import Case, Finding, Level
from llm_proxy.verdict.judging import Verdict

VERSION: Final = 1
"""Of the document: a field may be added, and none changes its meaning, while it stays the same."""
DEFAULT_LEVEL: Final = Level.WARNING
"""The findings that a run fails for, where nobody chooses."""


def document(it: Verdict, level: Level = DEFAULT_LEVEL) -> dict[str, Any]:
    """The document; `ok` is whether there is no finding of this level or above."""
    return {
        "verdict": VERSION,
        "ok": not it.reaching(level),
        "level": level.value,
        "faults": it.faults,
        "skipped": it.skipped,
        "requests": it.requests,
        "sessions": it.sessions,
        "findings": [_finding(case, case.finding) for case in it.findings if case.finding],
    }


def _finding(case: Case, finding: Finding) -> dict[str, Any]:
    first = case.chain.first
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
        "attempts": [it.number for it in case.chain.attempts],
        "evidence": [asdict(it) for it in finding.evidence],
    }
