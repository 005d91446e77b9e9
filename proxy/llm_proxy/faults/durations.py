"""Durations in fault arguments: fixed, or drawn for each request."""

from __future__ import annotations

from llm_proxy.faults.kind import FaultContext
from llm_proxy.pacing import durations
from llm_proxy.pacing.distributions import DurationDistribution, draw_ms


def parse_duration(text: str) -> DurationDistribution:
    """Parses a duration or a distribution of durations, with the syntax of paces.

    Raises `ValueError` with a description of what is expected.
    """
    try:
        return durations.parse_distribution("".join(text.lower().split()))
    except durations.InvalidDuration:
        raise ValueError(
            "a span of time such as 300ms, 100..300ms, normal(200ms,50ms) or lognormal(100ms,0.5)"
        ) from None


def seeded_duration_ms(
    distribution: DurationDistribution, context: FaultContext, purpose: str
) -> float:
    """Draws the duration in ms for this request; the same in each run with the same seed."""
    return draw_ms(distribution, context.draw_uniform(purpose))
