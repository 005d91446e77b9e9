"""`latency`: the response is delayed.

    ............  head  event 1  event 2  …
    │    by=   ├──┼─────┼────────┼────────

Without a location, the delay applies to the whole response.
"""

from __future__ import annotations

from typing import Final

from llm_proxy.faults.kind import (
    ALL_LOCATIONS,
    FaultArgument,
    FaultContext,
    FaultEffect,
    FaultKind,
    InjectedActions,
    OneShot,
)
from llm_proxy.pacing import distributions
from llm_proxy.pacing.distributions import DurationDistribution
from llm_proxy.unit_parsers import reject_bare_number


def _parse_duration(text: str) -> DurationDistribution:
    """Parses a duration or a distribution of durations, with the syntax of paces."""
    reject_bare_number(text)
    try:
        return distributions.parse_distribution("".join(text.lower().split()))
    except ValueError:
        raise ValueError(
            "a duration such as 300ms, 100..300ms, normal(200ms,50ms) or lognormal(100ms,0.5)"
        ) from None


DELAY_ARGUMENT: Final = FaultArgument(
    _parse_duration,
    "fixed delay such as 300ms, or random delay such as 100..300ms",
    is_required=True,
)
"""The argument `by`: how long something is delayed."""


def seeded_delay_ms(by: DurationDistribution, context: FaultContext) -> float:
    """Draws the delay in ms for this request; the same in each run with the same seed."""
    return distributions.draw_ms(by, context.draw_uniform("by"))


KIND = FaultKind(
    "latency",
    FaultEffect.SLOWED,
    "a delayed response",
    lambda by: OneShot(
        lambda position: InjectedActions(delay_ms=seeded_delay_ms(by, position.context)),
        may_precede_head=True,
    ),
    {"by": DELAY_ARGUMENT},
    allowed_locations=ALL_LOCATIONS,
    example="latency,by=50ms",
)
