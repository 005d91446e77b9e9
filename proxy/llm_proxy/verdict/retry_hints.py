"""Whether a response invites or forbids a retry."""

from __future__ import annotations

from typing import Final

from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.verdict.attempts import JournalAttempt

_RETRYABLE_CLIENT_ERRORS: Final = frozenset((408, 409, 425, 429, 498, 499))
"""Statuses of transient errors below 500: those after which SDKs retry, and Groq's and Cohere's own
for lack of capacity and an aborted request."""
_CLIENT_ERRORS: Final = range(400, 500)
_SERVER_ERRORS: Final = range(500, 600)
_SUCCESSES: Final = range(200, 300)


def forbids_retry(attempt: JournalAttempt) -> bool:
    """Whether a retry cannot help: `x-should-retry` takes precedence over the status."""
    if attempt.should_retry is not None:
        return not attempt.should_retry
    return attempt.status in _CLIENT_ERRORS and attempt.status not in _RETRYABLE_CLIENT_ERRORS


def invites_retry(attempt: JournalAttempt) -> bool:
    """Whether it is an error after which a retry may help; `x-should-retry` takes precedence."""
    if attempt.should_retry is not None:
        return attempt.should_retry
    return attempt.status in _RETRYABLE_CLIENT_ERRORS or attempt.status in _SERVER_ERRORS


def is_disguised_failure(attempt: JournalAttempt) -> bool:
    """Whether the response was replaced by something else that has a success status."""
    return (
        attempt.first_fault_with_effect(FaultEffect.REFUSED) is not None
        and attempt.status in _SUCCESSES
    )
