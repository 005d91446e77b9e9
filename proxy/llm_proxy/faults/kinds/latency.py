"""`latency`: the response is delayed.

    ............  head  event 1  event 2  …
    │    by=   ├──┼─────┼────────┼────────

The whole response, or everything from its location on, is delayed by the same time.  `by` is a
duration with the syntax of paces: `300ms`, or one drawn for each request: `100..300ms`,
`normal(200ms,50ms)`.
"""

from __future__ import annotations

from dataclasses import dataclass

from llm_proxy.faults.durations import parse_duration, seeded_duration_ms
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.kind import (
    ALL_LOCATIONS,
    FaultArgument,
    FaultKind,
    InjectedActions,
    Mechanism,
    OneShot,
    StreamPosition,
)
from llm_proxy.faults.location import StreamLocation
from llm_proxy.pacing.distributions import DurationDistribution


@dataclass(frozen=True, slots=True)
class Latency:
    """Delays the response by a duration drawn from `by`."""

    by: DurationDistribution

    def make_mechanism(self, _location: StreamLocation | None, /) -> Mechanism:
        """Delays everything from the head, or from its location, on."""
        return OneShot(self._make_injected_actions, may_precede_head=True)

    def _make_injected_actions(self, position: StreamPosition) -> InjectedActions:
        return InjectedActions(delay_ms=seeded_duration_ms(self.by, position.context, "by"))


KIND = FaultKind(
    "latency", FaultEffect.SLOWED, "the answer comes late", Latency,
    {"by": FaultArgument(parse_duration, "how late: 300ms, or drawn for each request: "
                                     "100..300ms", is_required=True)},
    allowed_locations=ALL_LOCATIONS, example="latency,by=50ms",
)  # fmt: skip
