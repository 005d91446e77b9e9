"""Failures that a turn simulates."""

from __future__ import annotations

from collections.abc import Iterator

from llm_proxy.scenario.documents.document import FAILURE_STATUSES, Step
from llm_proxy.scenario.documents.findings import Finding, Weight, warning
from llm_proxy.scenario.documents.wrong_types import choice


def unknown_status(it: Step) -> Iterator[Finding]:
    """A status that there is not: it is played as `model_error`."""
    if it.failure_status and it.failure_status not in FAILURE_STATUSES:
        yield Finding(
            ("failure_status",),
            f"it is played as model_error: {choice(it.failure_status, FAILURE_STATUSES)}",
            Weight.LOADED,
        )


def never_played(it: Step) -> Iterator[Finding]:
    """What is said of failures where none is asked for."""
    said = {
        "failure_throws": it.failure_throws,
        "failure_status": bool(it.failure_status),
        "failure_message": bool(it.failure_message),
        "failure_retryable": not it.failure_retryable,
        "failure_retry_after_ms": it.failure_retry_after_ms is not None,
        "failure_error": bool(it.failure_error),
    }
    if not it.failures_before_success:
        for name in (name for name, is_said in said.items() if is_said):
            yield warning(
                (name,), "nothing fails here: write failures_before_success, how often to fail"
            )
