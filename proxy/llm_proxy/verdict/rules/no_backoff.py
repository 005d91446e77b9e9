"""`no-backoff`: the client retries without pauses, or with constant pauses.

Why it matters: an overloaded provider gets even more load; clients with equal pauses return all at
once.
What to do: double the pause each time, up to a limit, with random jitter.
"""

from __future__ import annotations

from typing import Final

from llm_proxy.display import count_with_noun, format_duration
from llm_proxy.verdict.findings import FindingLevel, VerdictFinding, VerdictRule, chain_evidence
from llm_proxy.verdict.retry_chains import RetryChain, forbids_retry, pause_ms

_MIN_PAUSE_MS: Final = 100.0
"""A shorter pause counts as none: the SDKs of OpenAI and Anthropic begin with 375 ms."""
_MIN_SHORT_PAUSES: Final = 2
"""This many such pauses are a warning, since AWS's SDK begins with a random fraction of 50 ms, then
of 100 ms, and stops; one more is an error."""
_MIN_COMPARED_PAUSES: Final = 3
"""Pauses that are needed to see growth: of two, jitter can make the second the shorter."""
_MIN_GROWTH_FACTOR: Final = 1.5
"""The least ratio of the longest to the shortest of these, where pauses are doubled."""
_LONG_PAUSE_MS: Final = 5_000.0
"""Pauses of this length need not grow: most SDKs stop growing at 8 s or more."""


def _pauses_without_retry_after_ms(chain: RetryChain) -> list[float]:
    """The pauses without `Retry-After`, in ms; those before forbidden retries are left out."""
    return [
        pause_ms(before, after)
        for before, after in chain.retried_pairs()
        if before.retry_after_ms is None and not forbids_retry(before)
    ]


def _applies_to_chain(chain: RetryChain) -> bool:
    return len(_pauses_without_retry_after_ms(chain)) >= _MIN_SHORT_PAUSES


def _judge_chain(chain: RetryChain) -> VerdictFinding | None:
    pauses_ms = _pauses_without_retry_after_ms(chain)
    short_pauses_ms = [pause for pause in pauses_ms if pause < _MIN_PAUSE_MS]
    if len(short_pauses_ms) >= _MIN_SHORT_PAUSES:
        is_sure = len(short_pauses_ms) > _MIN_SHORT_PAUSES and not chain.may_be_separate_requests
        level = FindingLevel.ERROR if is_sure else FindingLevel.WARNING
        message = (
            f"asked again without a pause: {count_with_noun(len(short_pauses_ms), 'time')} within "
            f"{format_duration(max(short_pauses_ms))}"
        )
        return VerdictFinding(level, message, chain_evidence(chain))
    is_constant = (
        len(pauses_ms) >= _MIN_COMPARED_PAUSES
        and max(pauses_ms) < _LONG_PAUSE_MS
        and max(pauses_ms) < _MIN_GROWTH_FACTOR * max(min(pauses_ms), _MIN_PAUSE_MS)
    )
    if not is_constant:
        return None
    message = (
        f"waits no longer each time: {count_with_noun(len(pauses_ms), 'pause')} of "
        f"{format_duration(min(pauses_ms))} to {format_duration(max(pauses_ms))}"
    )
    return VerdictFinding(FindingLevel.WARNING, message, chain_evidence(chain))


NO_BACKOFF: Final = VerdictRule(
    "no-backoff",
    "asks again without pauses that grow",
    "wait 0.5 s before the first retry, double that for each further one up to some 8 s, and "
    "take a random share off, so that clients do not come back together",
    _applies_to_chain,
    _judge_chain,
)
