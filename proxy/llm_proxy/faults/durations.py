"""Durations in fault arguments: fixed, or drawn for each request."""

from __future__ import annotations

from typing import Final

from llm_proxy.faults.kind import FaultArgument, FaultContext
from llm_proxy.pacing import distributions
from llm_proxy.pacing.distributions import DurationDistribution, draw_ms


def _parse_duration(text: str) -> DurationDistribution:
    """Parses a duration or a distribution of durations, with the syntax of paces."""
    try:
        return distributions.parse_distribution("".join(text.lower().split()))
    except distributions.InvalidDuration:
        raise ValueError(
            "a span of time such as 300ms, 100..300ms, normal(200ms,50ms) or lognormal(100ms,0.5)"
        ) from None


DELAY_ARGUMENT: Final = FaultArgument(
    _parse_duration,
    "how late: 300ms, or drawn for each request: 100..300ms",
    is_required=True,
)
"""The argument `by`: how long something is delayed."""


def seeded_delay_ms(by: DurationDistribution, context: FaultContext) -> float:
    """Draws the delay in ms for this request; the same in each run with the same seed."""
    return draw_ms(by, context.draw_uniform("by"))
