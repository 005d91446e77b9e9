"""`retry-storm`: the client retries far more often than could help.

Why it matters: each attempt may cost money, and counts against the limit that refused it; a
provider that is down stays down while all its clients do so.
What to do: limit the attempts, and report the last failure.
"""

from __future__ import annotations

from typing import Final

from llm_proxy.display import count_with_noun, format_duration
from llm_proxy.verdict.attempt_descriptions import chain_evidence
from llm_proxy.verdict.finding import FindingLevel, VerdictFinding, VerdictRule
from llm_proxy.verdict.retry_chains import RetryChain

_MAX_ATTEMPTS: Final = 10
"""The most attempts of one request: SDKs make three, the most persistent five."""
_MAX_ATTEMPTS_PER_SECOND: Final = 5
"""The most attempts of one request within a second."""
_SECOND_MS: Final = 1000.0


def _applies_to_chain(chain: RetryChain) -> bool:
    return len(chain.attempts) > 1


def _judge_chain(chain: RetryChain) -> VerdictFinding | None:
    attempt_count = len(chain.attempts)
    duration_ms = chain.last_attempt.at_ms - chain.first_attempt.at_ms
    if attempt_count <= _MAX_ATTEMPTS and not _has_burst(chain):
        return None
    message = (
        f"asked {count_with_noun(attempt_count, 'time')} for the same within "
        f"{format_duration(duration_ms)}"
    )
    level = FindingLevel.WARNING if chain.may_be_separate_requests else FindingLevel.ERROR
    return VerdictFinding(level, message, chain_evidence(chain))


def _has_burst(chain: RetryChain) -> bool:
    starts = [attempt.at_ms for attempt in chain.attempts]
    return any(
        later_ms - earlier_ms < _SECOND_MS
        for earlier_ms, later_ms in zip(starts, starts[_MAX_ATTEMPTS_PER_SECOND:], strict=False)
    )


RETRY_STORM: Final = VerdictRule(
    "retry-storm",
    "asks more than 10 times for the same, or more than 5 times within a second",
    "limit the attempts of one request to three or so, all layers together: an SDK's retries are "
    "multiplied by those of the framework and the application around it",
    _applies_to_chain,
    _judge_chain,
)
