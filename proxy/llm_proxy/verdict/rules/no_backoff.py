"""`no-backoff`: asks again and again without a pause, or always after the same one.

Why it matters: a provider in trouble gets more work from everybody just then; clients that wait
equally long come back all at once.
What to do: double the pause each time, up to a limit, and take a random share of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from llm_proxy.display import counted, duration
from llm_proxy.verdict.finding import Finding, Level, Rule
from llm_proxy.verdict.retry_chains import Chain, pause
from llm_proxy.verdict.retry_hints import forbids
from llm_proxy.verdict.sentences import evidence

_NO_PAUSE: Final = 100.0
"""Ms below which a pause is none: the SDKs of OpenAI and Anthropic begin with 375."""
_FEW: Final = 2
"""Pauses below that which are a warning alone: AWS's SDK begins with a random share of 50 ms, then
of 100 ms, and has done; one more is an error."""
_SAME: Final = 3
"""Pauses that show whether they grow: of two, a random share can make the second the shorter."""
_GROWTH: Final = 1.5
"""What the longest of those is at least, measured by the shortest, where pauses are doubled."""
_LONG: Final = 5_000.0
"""Ms from which pauses need not grow any more: most SDKs stop at 8 s or more."""


def _pauses(chain: Chain) -> list[float]:
    """Those for which the client had nothing but its own judgement; no pause helps after some."""
    return [
        pause(before, after)
        for before, after in chain.followed()
        if before.retry_after_ms is None and not forbids(before)
    ]


def _concerns(chain: Chain) -> bool:
    return len(_pauses(chain)) >= _FEW


def _judge(chain: Chain) -> Finding | None:
    pauses = _pauses(chain)
    short = [it for it in pauses if it < _NO_PAUSE]
    if len(short) >= _FEW:
        is_sure = len(short) > _FEW and not chain.is_doubtful
        level = Level.ERROR if is_sure else Level.WARNING
        message = (
            f"asked again without a pause: {counted(len(short), 'time')} within "
            f"{duration(max(short))}"
        )
        return Finding(level, message, evidence(chain))
    if _stands_still(pauses):
        message = (
            f"waits no longer each time: {counted(len(pauses), 'pause')} of "
            f"{duration(min(pauses))} to {duration(max(pauses))}"
        )
        return Finding(Level.WARNING, message, evidence(chain))
    return None


def _stands_still(pauses: Sequence[float]) -> bool:
    return (
        len(pauses) >= _SAME
        and max(pauses) < _LONG
        and max(pauses) < _GROWTH * max(min(pauses), _NO_PAUSE)
    )


NO_BACKOFF: Final = Rule(
    "no-backoff",
    "asks again without pauses that grow",
    "wait 0.5 s before the first retry, double that for each further one up to some 8 s, and "
    "take a random share off, so that clients do not come back together",
    _concerns,
    _judge,
)
