"""`too-soon`: asked again before the time that `Retry-After` had told.

Why it matters: a provider that limits you counts what comes too early, and limits you longer.
What to do: wait as long as the header says, in seconds, in ms, or until a date.
"""

from __future__ import annotations

from typing import Final

from llm_proxy.display import duration
from llm_proxy.verdict.attempts import Attempt
from llm_proxy.verdict.finding import Finding, Level, Rule
from llm_proxy.verdict.retry_chains import Chain, pause
from llm_proxy.verdict.sentences import evidence_of, times

_SHARE: Final = 0.05
"""Of the time that was told: what clocks and rounding may take off it."""
_LEAST: Final = 50.0
"""Ms that may be missing of any time: what a timer and a scheduler may be early by."""


def _is_told(before: Attempt) -> bool:
    return before.retry_after_ms is not None and before.retry_after_ms > 0


def _is_early(before: Attempt, after: Attempt) -> bool:
    wanted = before.retry_after_ms or 0.0
    return pause(before, after) < wanted - max(_SHARE * wanted, _LEAST)


def _concerns(chain: Chain) -> bool:
    return any(_is_told(before) for before, _ in chain.followed())


def _judge(chain: Chain) -> Finding | None:
    early = [pair for pair in chain.followed() if _is_told(pair[0]) and _is_early(*pair)]
    if not early:
        return None
    before, after = min(early, key=lambda pair: pause(*pair))
    message = (
        f"asked again too soon, {times(len(early))}: after {duration(pause(before, after))}, "
        f"where it was told to wait {duration(before.retry_after_ms or 0.0)}"
    )
    return Finding(Level.ERROR, message, tuple(evidence_of(*pair) for pair in early))


TOO_SOON: Final = Rule(
    "too-soon",
    "asks again before Retry-After allows it",
    "wait for the time in retry-after-ms or Retry-After before asking again; the SDKs of OpenAI "
    "and Anthropic do where their retries are left on",
    _concerns,
    _judge,
)
