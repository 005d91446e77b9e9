"""All trials as one JSON document; `docs/chaos.md` describes it."""

from __future__ import annotations

from typing import Any, Final

from llm_proxy.chaos.trials import Chaos, Trial
from llm_proxy.verdict.document import document as verdict_document
from llm_proxy.verdict.finding import Level

VERSION: Final = 1
"""Of the document: a field may be added, and none changes its meaning, while it stays the same."""


def document(it: Chaos) -> dict[str, Any]:
    """The document; `ok` is whether everything was tried, and nothing was wrong."""
    return {
        "chaos": VERSION,
        "ok": not it.wrong and it.is_complete,
        "level": it.level.value,
        "command": list(it.command),
        "planned": it.planned,
        "trials": [_trial(each, it.level) for each in it.trials],
    }


def _trial(it: Trial, level: Level) -> dict[str, Any]:
    return {
        "fault": it.fault,
        "outcome": it.outcome.value,
        "why": it.why,
        "exit_code": it.code,
        "seconds": round(it.seconds, 3),
        "requests": it.requests,
        "struck": it.struck,
        "misses": it.misses,
        "verdict": verdict_document(it.judged, level),
        "output": it.output,
    }
