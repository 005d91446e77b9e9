"""`retry-storm`: asks far more often than could help.

Why it matters: each attempt may be paid for, and counts against the limit that refused it; a
provider that is down stays down while all its clients do so.
What to do: set a limit of attempts, and let the last failure be seen.
"""

from __future__ import annotations

from typing import Final

from llm_proxy.display import count_noun, format_duration
from llm_proxy.verdict.attempt_descriptions import chain_evidence
from llm_proxy.verdict.finding import FindingLevel, VerdictFinding, VerdictRule
from llm_proxy.verdict.retry_chains import RetryChain

_MOST: Final = 10
"""Attempts of one request: SDKs make three, the most patient of them five."""
_MOST_AT_ONCE: Final = 5
"""Attempts of one request within a second."""
_SECOND: Final = 1000.0


def _applies(chain: RetryChain) -> bool:
    return len(chain.attempts) > 1


def _find(chain: RetryChain) -> VerdictFinding | None:
    number = len(chain.attempts)
    span = chain.last_attempt.at_ms - chain.first_attempt.at_ms
    if number <= _MOST and not _has_burst(chain):
        return None
    message = f"asked {count_noun(number, 'time')} for the same within {format_duration(span)}"
    level = FindingLevel.WARNING if chain.is_uncertain else FindingLevel.ERROR
    return VerdictFinding(level, message, chain_evidence(chain))


def _has_burst(chain: RetryChain) -> bool:
    starts = [attempt.at_ms for attempt in chain.attempts]
    return any(
        late - early < _SECOND for early, late in zip(starts, starts[_MOST_AT_ONCE:], strict=False)
    )


RETRY_STORM: Final = VerdictRule(
    "retry-storm",
    "asks more than 10 times for the same, or more than 5 times within a second",
    "limit the attempts of one request to three or so, all layers together: an SDK's retries are "
    "multiplied by those of the framework and the application around it",
    _applies,
    _find,
)
