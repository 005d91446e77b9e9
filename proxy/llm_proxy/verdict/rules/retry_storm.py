"""`retry-storm`: asks far more often than could help.

Why it matters: each attempt may be paid for, and counts against the limit that refused it; a
provider that is down stays down while all its clients do so.
What to do: set a limit of attempts, and let the last failure be seen.
"""

from __future__ import annotations

from typing import Final

from llm_proxy.display import counted, duration
from llm_proxy.verdict.finding import Finding, Level, Rule
from llm_proxy.verdict.retry_chains import Chain
from llm_proxy.verdict.sentences import evidence

_MOST: Final = 10
"""Attempts of one request: SDKs make three, the most patient of them five."""
_MOST_AT_ONCE: Final = 5
"""Attempts of one request within a second."""
_SECOND: Final = 1000.0


def _concerns(chain: Chain) -> bool:
    return len(chain.attempts) > 1


def _judge(chain: Chain) -> Finding | None:
    number = len(chain.attempts)
    span = chain.last.at_ms - chain.first.at_ms
    if number <= _MOST and not _has_burst(chain):
        return None
    message = f"asked {counted(number, 'time')} for the same within {duration(span)}"
    level = Level.WARNING if chain.is_doubtful else Level.ERROR
    return Finding(level, message, evidence(chain))


def _has_burst(chain: Chain) -> bool:
    """Whether more than a few fall into one second."""
    starts = [it.at_ms for it in chain.attempts]
    return any(
        late - early < _SECOND for early, late in zip(starts, starts[_MOST_AT_ONCE:], strict=False)
    )


RETRY_STORM: Final = Rule(
    "retry-storm",
    "asks more than 10 times for the same, or more than 5 times within a second",
    "limit the attempts of one request to three or so, all layers together: an SDK's retries are "
    "multiplied by those of the framework and the application around it",
    _concerns,
    _judge,
)
