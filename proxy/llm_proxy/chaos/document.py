"""The result of a chaos run as one JSON document; see `docs/chaos.md`."""

from __future__ import annotations

from typing import Any, Final

from llm_proxy.chaos.trials import ChaosRun, FaultTrial
from llm_proxy.verdict.document import verdict_document
from llm_proxy.verdict.finding import FindingLevel

VERSION: Final = 1
"""Of the document: a field may be added, and none changes its meaning, while it stays the same."""


def chaos_document(chaos_run: ChaosRun) -> dict[str, Any]:
    """The document; `ok` is whether everything was tried, and nothing was wrong."""
    return {
        "chaos": VERSION,
        "ok": not chaos_run.failed_trials and chaos_run.is_complete,
        "level": chaos_run.level.value,
        "command": list(chaos_run.command),
        "planned": chaos_run.planned_count,
        "trials": [_trial_document(trial, chaos_run.level) for trial in chaos_run.trials],
    }


def _trial_document(fault_trial: FaultTrial, level: FindingLevel) -> dict[str, Any]:
    return {
        "fault": fault_trial.fault,
        "outcome": fault_trial.outcome.value,
        "why": fault_trial.reason,
        "exit_code": fault_trial.code,
        "seconds": round(fault_trial.seconds, 3),
        "requests": fault_trial.requests,
        "struck": fault_trial.injected_count,
        "misses": fault_trial.misses,
        "verdict": verdict_document(fault_trial.verdict, level),
        "output": fault_trial.output,
    }
