"""Detects that a client used a spoiled response: a later request's history contains it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llm_proxy.verdict.attempt_descriptions import describe_received
from llm_proxy.verdict.attempts import JournalAttempt
from llm_proxy.verdict.finding import FindingEvidence
from llm_proxy.verdict.retry_chains import RetryChain


def used_spoiled_attempts(
    chain: RetryChain, is_spoiled: Callable[[JournalAttempt], bool]
) -> list[JournalAttempt]:
    """The attempts that are spoiled by this criterion, and whose responses were used anyway."""
    return [
        attempt
        for attempt in chain.attempts
        if attempt.number in chain.follow_up_by_attempt_number and is_spoiled(attempt)
    ]


def evidence_of_use(
    chain: RetryChain, spoiled: Sequence[JournalAttempt]
) -> tuple[FindingEvidence, ...]:
    """The evidence: each spoiled response that was used, and the request that contains it."""
    return tuple(
        FindingEvidence(
            journal_attempt.number,
            journal_attempt.at_ms,
            describe_received(journal_attempt),
            "sent as history with "
            f"#{chain.follow_up_by_attempt_number[journal_attempt.number].number}",
        )
        for journal_attempt in spoiled
    )
