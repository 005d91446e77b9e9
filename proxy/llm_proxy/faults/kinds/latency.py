"""`latency`: the answer comes late.

    ............  head  event 1  event 2  …
    │    by=   ├──┼─────┼────────┼────────

All of it is late by the same time, before the head or from its place on.  `by` is a span as of
a pace: `300ms`, or one that each request draws for itself: `100..300ms`, `normal(200ms,50ms)`.
"""

from __future__ import annotations

from dataclasses import dataclass

from llm_proxy.faults.durations import parse_span, seeded_duration_ms
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.kind import (
    ANYWHERE,
    FaultArgument,
    FaultKind,
    InjectedActions,
    OneShot,
    StreamPosition,
    Work,
)
from llm_proxy.faults.location import Place
from llm_proxy.pacing.distributions import Distribution


@dataclass(frozen=True, slots=True)
class Latency:
    """A delay."""

    by: Distribution

    def mechanism(self, _place: Place | None, /) -> Work:
        """Before the head, or at its place."""
        return OneShot(self._inject, may_precede_head=True)

    def _inject(self, position: StreamPosition) -> InjectedActions:
        return InjectedActions(delay=seeded_duration_ms(self.by, position.context, "by"))


KIND = FaultKind(
    "latency", FaultEffect.SLOWED, "the answer comes late", Latency,
    {"by": FaultArgument(parse_span, "how late: 300ms, or drawn for each request: "
                                     "100..300ms", is_required=True)},
    allowed_locations=ANYWHERE, example="latency,by=50ms",
)  # fmt: skip
