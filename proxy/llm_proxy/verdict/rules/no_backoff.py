"""`no-backoff`: asks again and again without a pause, or always after the same one.

Why it matters: a provider in trouble gets more work from everybody just then; clients that wait
equally long come back all at once.
What to do: double the pause each time, up to a limit, and take a random share of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from llm_proxy.display import count_noun, format_duration
from llm_proxy.verdict.attempt_descriptions import chain_evidence
from llm_proxy.verdict.finding import FindingLevel, VerdictFinding, VerdictRule
from llm_proxy.verdict.retry_chains import RetryChain, pause_ms
from llm_proxy.verdict.retry_hints import forbids_retry

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


def _own_pauses(chain: RetryChain) -> list[float]:
    """Those for which the client had nothing but its own judgement; no pause helps after some."""
    return [
        pause_ms(before, after)
        for before, after in chain.retried_pairs()
        if before.retry_after_ms is None and not forbids_retry(before)
    ]


def _applies(chain: RetryChain) -> bool:
    return len(_own_pauses(chain)) >= _FEW


def _find(chain: RetryChain) -> VerdictFinding | None:
    pauses = _own_pauses(chain)
    short = [pause for pause in pauses if pause < _NO_PAUSE]
    if len(short) >= _FEW:
        is_sure = len(short) > _FEW and not chain.is_uncertain
        level = FindingLevel.ERROR if is_sure else FindingLevel.WARNING
        message = (
            f"asked again without a pause: {count_noun(len(short), 'time')} within "
            f"{format_duration(max(short))}"
        )
        return VerdictFinding(level, message, chain_evidence(chain))
    if _is_constant(pauses):
        message = (
            f"waits no longer each time: {count_noun(len(pauses), 'pause')} of "
            f"{format_duration(min(pauses))} to {format_duration(max(pauses))}"
        )
        return VerdictFinding(FindingLevel.WARNING, message, chain_evidence(chain))
    return None


def _is_constant(pauses: Sequence[float]) -> bool:
    return (
        len(pauses) >= _SAME
        and max(pauses) < _LONG
        and max(pauses) < _GROWTH * max(min(pauses), _NO_PAUSE)
    )


NO_BACKOFF: Final = VerdictRule(
    "no-backoff",
    "asks again without pauses that grow",
    "wait 0.5 s before the first retry, double that for each further one up to some 8 s, and "
    "take a random share off, so that clients do not come back together",
    _applies,
    _find,
)
