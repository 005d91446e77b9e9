"""`gave-up`: the client does not retry after a transient failure.

Why it matters: overload, limits and lost connections are common, and mostly gone with the next
attempt; the user sees an avoidable error.
What to do: leave the SDK's retries on, or retry; within a stream only the application can.
"""

from __future__ import annotations

from typing import Final

from llm_proxy.display import format_duration
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.journal_document import JournalEntry
from llm_proxy.verdict.findings import (
    FindingLevel,
    VerdictFinding,
    VerdictRule,
    chain_evidence,
    describe_received,
    format_repeat_count,
)
from llm_proxy.verdict.retry_chains import RetryChain, invites_retry

_LONG_RETRY_AFTER_MS: Final = 60_000.0
"""With a longer `Retry-After`, a client may reasonably give up."""

_CONNECTION_EFFECTS: Final = (
    FaultEffect.UNANSWERED,
    FaultEffect.DISCONNECTED,
    FaultEffect.STALLED,
    FaultEffect.CUT,
)


def _is_transient(attempt: JournalEntry) -> bool:
    if attempt.should_retry is False:
        return False
    if attempt.first_fault_with_effect(FaultEffect.REFUSED) is not None:
        return invites_retry(attempt)
    return attempt.first_fault_with_effect(*_CONNECTION_EFFECTS) is not None


def _applies_to_chain(chain: RetryChain) -> bool:
    return chain.last_attempt.is_over and any(map(_is_transient, chain.attempts))


def _judge_chain(chain: RetryChain) -> VerdictFinding | None:
    last = chain.last_attempt
    if not _is_transient(last) or last.number in chain.follow_up_by_attempt_number:
        return None
    attempt_count = len(chain.attempts)
    level = FindingLevel.NOTE
    if attempt_count > 1:
        message = (
            f"gave up after it had asked {format_repeat_count(attempt_count)}: "
            f"{describe_received(last)}"
        )
    elif last.status and last.streams and not invites_retry(last):
        message = f"a stream was lost, and nobody asked again: {describe_received(last)}"
    elif (last.retry_after_ms or 0.0) > _LONG_RETRY_AFTER_MS:
        message = f"gave up, as it was told to wait {format_duration(last.retry_after_ms or 0.0)}"
    else:
        level = FindingLevel.WARNING
        message = f"gave up at the first failure: {describe_received(last)}"
    return VerdictFinding(level, message, chain_evidence(chain))


GAVE_UP: Final = VerdictRule(
    "gave-up",
    "does not ask again after a failure that may pass",
    "leave the retries of the SDK on (max_retries), or ask again in the application; no SDK asks "
    "again for a stream that has begun: catch what it raises there, and ask again or say so",
    _applies_to_chain,
    _judge_chain,
)
