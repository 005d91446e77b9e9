"""The result of a chaos run as one JSON document; see `docs/chaos.md`."""

from __future__ import annotations

from typing import Any, Final

from llm_proxy.chaos.trials import ChaosRun, FaultTrial
from llm_proxy.verdict.findings import FindingLevel
from llm_proxy.verdict.judging import verdict_document

DOCUMENT_VERSION: Final = 1
"""The version of the document: fields may be added to it, but none changes its meaning."""


def chaos_result_document(chaos_run: ChaosRun) -> dict[str, Any]:
    """The JSON document; `ok` is whether all trials were run, and none failed."""
    return {
        "chaos": DOCUMENT_VERSION,
        "ok": not chaos_run.failed_trials and chaos_run.is_complete,
        "level": chaos_run.failing_level.value,
        "command": list(chaos_run.command),
        "planned": chaos_run.planned_count,
        "trials": [_trial_document(trial, chaos_run.failing_level) for trial in chaos_run.trials],
    }


def _trial_document(fault_trial: FaultTrial, level: FindingLevel) -> dict[str, Any]:
    return {
        "fault": fault_trial.rule_text,
        "outcome": fault_trial.outcome.value,
        "why": fault_trial.outcome_text,
        "exit_code": fault_trial.exit_code,
        "seconds": round(fault_trial.duration_s, 3),
        "requests": fault_trial.request_count,
        "struck": fault_trial.injected_count,
        "misses": fault_trial.miss_count,
        "verdict": verdict_document(fault_trial.verdict, level),
        "output": fault_trial.output_tail,
    }
