"""Detects that a client used a spoiled response: it occurs in a later request's history."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llm_proxy.verdict.attempt_descriptions import describe_received
from llm_proxy.verdict.attempts import JournalAttempt
from llm_proxy.verdict.finding import FindingEvidence
from llm_proxy.verdict.retry_chains import RetryChain


def used_spoiled_attempts(
    chain: RetryChain, is_spoiled: Callable[[JournalAttempt], bool]
) -> list[JournalAttempt]:
    """The attempts that were spoiled so, and whose answers were used all the same."""
    return [
        attempt
        for attempt in chain.attempts
        if attempt.number in chain.is_continued and is_spoiled(attempt)
    ]


def evidence_of_use(
    chain: RetryChain, spoiled: Sequence[JournalAttempt]
) -> tuple[FindingEvidence, ...]:
    """What was used, and where that is seen."""
    return tuple(
        FindingEvidence(
            journal_attempt.number,
            journal_attempt.at_ms,
            describe_received(journal_attempt),
            f"sent as history with #{chain.is_continued[journal_attempt.number].number}",
        )
        for journal_attempt in spoiled
    )
