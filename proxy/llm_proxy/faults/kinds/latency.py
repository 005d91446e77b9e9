"""`latency`: the answer comes late.

    ............  head  event 1  event 2  …
    │    by=   ├──┼─────┼────────┼────────

All of it is late by the same time, before the head or from its place on.  `by` is a span as of
a pace: `300ms`, or one that each request draws for itself: `100..300ms`, `normal(200ms,50ms)`.
"""

from __future__ import annotations

from dataclasses import dataclass

from llm_proxy.faults.durations import roll, span
from llm_proxy.faults.fault_record import Effect
from llm_proxy.faults.kind import ANYWHERE, Argument, Kind, Moment, Strike, Struck, Work
from llm_proxy.faults.location import Place
from llm_proxy.pacing.distributions import Distribution


@dataclass(frozen=True, slots=True)
class Latency:
    """A delay."""

    by: Distribution

    def work(self, _place: Place | None, /) -> Work:
        """Before the head, or at its place."""
        return Strike(self._strike, before_head=True)

    def _strike(self, moment: Moment) -> Struck:
        return Struck(delay=roll(self.by, moment.met, "by"))


KIND = Kind(
    "latency", Effect.SLOWED, "the answer comes late", Latency,
    {"by": Argument(span, "how late: 300ms, or drawn for each request: 100..300ms", needed=True)},
    places=ANYWHERE, example="latency,by=50ms",
)  # fmt: skip
