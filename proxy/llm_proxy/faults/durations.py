"""Durations of faults: fixed, or drawn per request."""

from __future__ import annotations

from llm_proxy.faults.kind import FaultContext
from llm_proxy.pacing import durations
from llm_proxy.pacing.distributions import Distribution, draw_ms


def parse_span(text: str) -> Distribution:
    """The span that a text spells, as in the grammar of paces.

    Raises `ValueError` with what it should be.
    """
    try:
        return durations.parse_distribution("".join(text.lower().split()))
    except durations.InvalidSpan:
        raise ValueError(
            "a span of time such as 300ms, 100..300ms, normal(200ms,50ms) or lognormal(100ms,0.5)"
        ) from None


def seeded_duration_ms(distribution: Distribution, context: FaultContext, purpose: str) -> float:
    """The span in ms that this request meets; the same in each run."""
    return draw_ms(distribution, context.seeded_chance(purpose))
