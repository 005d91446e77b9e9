"""`must-not-retry`: the client retries after a permanent error.

Why it matters: the same request is refused in the same way; each retry costs time and counts
against the limits of the key, and a wrong key that is used often enough is blocked.
What to do: report such an error at once.
"""

from __future__ import annotations

from typing import Final

from llm_proxy.display import format_duration
from llm_proxy.journal_document import JournalEntry
from llm_proxy.verdict.findings import (
    FindingLevel,
    VerdictFinding,
    VerdictRule,
    attempt_evidence,
    format_repeat_count,
)
from llm_proxy.verdict.retry_chains import RetryChain, forbids_retry, pause_ms

_MAX_RETRY_PAUSE_MS: Final = 5_000.0
"""After a longer pause an equal request counts as a new one, unless an SDK counts it as a retry."""
_UNAUTHORISED: Final = 401


def _applies_to_chain(chain: RetryChain) -> bool:
    return any(map(forbids_retry, chain.attempts))


def _judge_chain(chain: RetryChain) -> VerdictFinding | None:
    forbidden_retries = [
        (*pair, level)
        for pair in chain.retried_pairs()
        if (level := _retry_finding_level(*pair)) is not None
    ]
    if not forbidden_retries:
        return None
    tolerated_retry = next(
        (retry for retry in forbidden_retries if retry[0].status == _UNAUTHORISED), None
    )
    levels = [
        FindingLevel.NOTE if retry is tolerated_retry else retry[2] for retry in forbidden_retries
    ]
    worst = max(levels, key=lambda level: level.severity)
    before, after, _ = forbidden_retries[levels.index(worst)]
    should_retry_text = ", x-should-retry: false" if before.should_retry is False else ""
    match after.retry_count:
        case None:
            count_text = ""
        case 0:
            count_text = (
                ", which its SDK counts as a new one: the application asked again by itself"
            )
        case count:
            count_text = f", which its SDK counts as retry {count}"
    message = (
        "asked again for what was refused for good, "
        f"{format_repeat_count(len(forbidden_retries))}: HTTP {before.status}{should_retry_text}, "
        f"and {format_duration(pause_ms(before, after))} later the same request{count_text}"
    )
    return VerdictFinding(
        worst, message, tuple(attempt_evidence(*pair[:2]) for pair in forbidden_retries)
    )


def _retry_finding_level(before: JournalEntry, after: JournalEntry) -> FindingLevel | None:
    """The level of a forbidden retry, by how certain it is; None where it is no retry."""
    if not forbids_retry(before):
        return None
    if after.retry_count:
        return FindingLevel.ERROR
    return None if pause_ms(before, after) > _MAX_RETRY_PAUSE_MS else FindingLevel.WARNING


MUST_NOT_RETRY: Final = VerdictRule(
    "must-not-retry",
    "asks again after an answer that says that it would not help",
    "raise at once after 400, 401, 403, 404, 413, 422 and their kin, and after "
    "x-should-retry: false; a 401 may be asked once more with a new key",
    _applies_to_chain,
    _judge_chain,
)
