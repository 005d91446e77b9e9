"""Whether a response invites or forbids a retry."""

from __future__ import annotations

from typing import Final

from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.verdict.attempts import JournalAttempt

_AGAIN: Final = frozenset((408, 409, 425, 429, 498, 499))
"""Statuses below 500 of what may pass: those that SDKs ask again after, and Groq's and Cohere's
own for a lack of room and a request that was broken off."""
_REFUSALS: Final = range(400, 500)
_ERRORS: Final = range(500, 600)
_SUCCESSES: Final = range(200, 300)


def forbids_retry(attempt: JournalAttempt) -> bool:
    """Whether asking again cannot help: what it says of that itself wins over its status."""
    if attempt.should_retry is not None:
        return not attempt.should_retry
    return attempt.status in _REFUSALS and attempt.status not in _AGAIN


def invites_retry(attempt: JournalAttempt) -> bool:
    """Whether it is an error after which asking again may help."""
    if attempt.should_retry is not None:
        return attempt.should_retry
    return attempt.status in _AGAIN or attempt.status in _ERRORS


def is_disguised_failure(attempt: JournalAttempt) -> bool:
    """Whether it is something else in place of the answer, that calls itself a success."""
    return (
        attempt.first_fault_with_effect(FaultEffect.REFUSED) is not None
        and attempt.status in _SUCCESSES
    )
