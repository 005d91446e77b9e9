"""`too-soon`: asked again before the time that `Retry-After` had told.

Why it matters: a provider that limits you counts what comes too early, and limits you longer.
What to do: wait as long as the header says, in seconds, in ms, or until a date.
"""

from __future__ import annotations

from typing import Final

from llm_proxy.display import format_duration
from llm_proxy.verdict.attempt_descriptions import attempt_evidence, times_in_words
from llm_proxy.verdict.attempts import JournalAttempt
from llm_proxy.verdict.finding import FindingLevel, VerdictFinding, VerdictRule
from llm_proxy.verdict.retry_chains import RetryChain, pause_ms

_SHARE: Final = 0.05
"""Of the time that was told: what clocks and rounding may take off it."""
_LEAST: Final = 50.0
"""Ms that may be missing of any time: what a timer and a scheduler may be early by."""


def _has_retry_after(before: JournalAttempt) -> bool:
    return before.retry_after_ms is not None and before.retry_after_ms > 0


def _is_early(before: JournalAttempt, after: JournalAttempt) -> bool:
    wanted = before.retry_after_ms or 0.0
    return pause_ms(before, after) < wanted - max(_SHARE * wanted, _LEAST)


def _applies(chain: RetryChain) -> bool:
    return any(_has_retry_after(before) for before, _ in chain.retried_pairs())


def _find(chain: RetryChain) -> VerdictFinding | None:
    early = [
        pair for pair in chain.retried_pairs() if _has_retry_after(pair[0]) and _is_early(*pair)
    ]
    if not early:
        return None
    before, after = min(early, key=lambda pair: pause_ms(*pair))
    message = (
        f"asked again too soon, {times_in_words(len(early))}: after "
        f"{format_duration(pause_ms(before, after))}, "
        f"where it was told to wait {format_duration(before.retry_after_ms or 0.0)}"
    )
    return VerdictFinding(
        FindingLevel.ERROR, message, tuple(attempt_evidence(*pair) for pair in early)
    )


TOO_SOON: Final = VerdictRule(
    "too-soon",
    "asks again before Retry-After allows it",
    "wait for the time in retry-after-ms or Retry-After before asking again; the SDKs of OpenAI "
    "and Anthropic do where their retries are left on",
    _applies,
    _find,
)
