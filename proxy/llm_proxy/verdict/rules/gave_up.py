"""`gave-up`: does not ask again after a failure that may pass.

Why it matters: overload, limits and lost connections are everyday matters, and mostly gone with
the next attempt; the user sees an error that need not be.
What to do: leave the SDK's retries on, or ask again; amid a stream only the application can.
"""

from __future__ import annotations

from typing import Final

from llm_proxy.display import duration
from llm_proxy.faults.fault_record import Effect
from llm_proxy.verdict.attempts import Attempt
from llm_proxy.verdict.finding import Finding, Level, Rule
from llm_proxy.verdict.retry_chains import Chain
from llm_proxy.verdict.retry_hints import invites
from llm_proxy.verdict.sentences import evidence, times, told

_LONG: Final = 60_000.0
"""Ms of Retry-After from which a client may well rather give up than wait."""

_BROKEN: Final = (Effect.UNANSWERED, Effect.DISCONNECTED, Effect.STALLED, Effect.CUT)


def _is_passing(attempt: Attempt) -> bool:
    """Whether it met a failure that asking again may help against."""
    if attempt.should_retry is False:
        return False
    if attempt.met(Effect.REFUSED) is not None:
        return invites(attempt)
    return attempt.met(*_BROKEN) is not None


def _concerns(chain: Chain) -> bool:
    return chain.last.is_over and any(map(_is_passing, chain.attempts))


def _judge(chain: Chain) -> Finding | None:
    last = chain.last
    if not _is_passing(last) or last.number in chain.continued:
        return None
    number = len(chain.attempts)
    if number > 1:
        message = f"gave up after it had asked {times(number)}: {told(last)}"
        return Finding(Level.NOTE, message, evidence(chain))
    if last.status and last.streams and not invites(last):
        message = f"a stream was lost, and nobody asked again: {told(last)}"
        return Finding(Level.NOTE, message, evidence(chain))
    if (last.retry_after_ms or 0.0) > _LONG:
        message = f"gave up, as it was told to wait {duration(last.retry_after_ms or 0.0)}"
        return Finding(Level.NOTE, message, evidence(chain))
    message = f"gave up at the first failure: {told(last)}"
    return Finding(Level.WARNING, message, evidence(chain))


GAVE_UP: Final = Rule(
    "gave-up",
    "does not ask again after a failure that may pass",
    "leave the retries of the SDK on (max_retries), or ask again in the application; no SDK asks "
    "again for a stream that has begun: catch what it raises there, and ask again or say so",
    _concerns,
    _judge,
)
