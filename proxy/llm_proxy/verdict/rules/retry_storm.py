"""`retry-storm`: the client retries far more often than could help.

Why it matters: each attempt may cost money, and counts against the limit that refused it; a
provider that is down stays down while all its clients do so.
What to do: limit the attempts, and report the last failure.
"""

from __future__ import annotations

from typing import Final

from llm_proxy.display import count_with_noun, format_duration
from llm_proxy.verdict.findings import FindingLevel, VerdictFinding, VerdictRule, chain_evidence
from llm_proxy.verdict.retry_chains import RetryChain

_MAX_ATTEMPTS: Final = 10
"""The most attempts of one request: SDKs make three, the most persistent five."""
_MAX_ATTEMPTS_PER_SECOND: Final = 5
"""The most attempts of one request within a second."""
_SECOND_MS: Final = 1000.0


def _applies_to_chain(chain: RetryChain) -> bool:
    return len(chain.attempts) > 1


def _judge_chain(chain: RetryChain) -> VerdictFinding | None:
    starts_ms = [attempt.at_ms for attempt in chain.attempts]
    has_burst = any(
        later_ms - earlier_ms < _SECOND_MS
        for earlier_ms, later_ms in zip(
            starts_ms, starts_ms[_MAX_ATTEMPTS_PER_SECOND:], strict=False
        )
    )
    if len(starts_ms) <= _MAX_ATTEMPTS and not has_burst:
        return None
    message = (
        f"asked {count_with_noun(len(starts_ms), 'time')} for the same within "
        f"{format_duration(starts_ms[-1] - starts_ms[0])}"
    )
    level = FindingLevel.WARNING if chain.may_be_separate_requests else FindingLevel.ERROR
    return VerdictFinding(level, message, chain_evidence(chain))


RETRY_STORM: Final = VerdictRule(
    "retry-storm",
    "asks more than 10 times for the same, or more than 5 times within a second",
    "limit the attempts of one request to three or so, all layers together: an SDK's retries are "
    "multiplied by those of the framework and the application around it",
    _applies_to_chain,
    _judge_chain,
)
