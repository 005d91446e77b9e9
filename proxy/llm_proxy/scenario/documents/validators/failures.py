"""Validates simulated failures."""

from __future__ import annotations

from collections.abc import Iterator

from llm_proxy.scenario.documents.document import FAILURE_STATUSES, ScenarioTurn
from llm_proxy.scenario.documents.findings import FindingSeverity, StructFinding, warning_finding
from llm_proxy.scenario.documents.wrong_types import choice_message


def check_failure_status(scenario_turn: ScenarioTurn) -> Iterator[StructFinding]:
    """Find an unknown status, which is played as `model_error`."""
    if scenario_turn.failure_status and scenario_turn.failure_status not in FAILURE_STATUSES:
        yield StructFinding(
            ("failure_status",),
            f"it is played as model_error: "
            f"{choice_message(scenario_turn.failure_status, FAILURE_STATUSES)}",
            FindingSeverity.LOADED,
        )


def check_unused_failure_fields(scenario_turn: ScenarioTurn) -> Iterator[StructFinding]:
    """Find failure fields of a turn that never fails."""
    is_set_by_field = {
        "failure_throws": scenario_turn.failure_throws,
        "failure_status": bool(scenario_turn.failure_status),
        "failure_message": bool(scenario_turn.failure_message),
        "failure_retryable": not scenario_turn.failure_retryable,
        "failure_retry_after_ms": scenario_turn.failure_retry_after_ms is not None,
        "failure_error": bool(scenario_turn.failure_error),
    }
    if not scenario_turn.failures_before_success:
        for name in (name for name, is_set in is_set_by_field.items() if is_set):
            yield warning_finding(
                (name,), "nothing fails here: write failures_before_success, how often to fail"
            )
