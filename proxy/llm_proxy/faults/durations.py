"""Spans of time that faults are given: fixed, or drawn anew for each request."""

from __future__ import annotations

from llm_proxy.faults.kind import Met
from llm_proxy.pacing import durations
from llm_proxy.pacing.distributions import Distribution, drawn


def span(text: str) -> Distribution:
    """The span that a text spells, as in the grammar of paces.

    Raises `ValueError` with what it should be.
    """
    try:
        return durations.distribution("".join(text.lower().split()))
    except durations.WrongSpan:
        raise ValueError(
            "a span of time such as 300ms, 100..300ms, normal(200ms,50ms) or lognormal(100ms,0.5)"
        ) from None


def roll(it: Distribution, met: Met, purpose: str) -> float:
    """The span in ms that this request meets; the same in each run."""
    return drawn(it, met.chance(purpose))
