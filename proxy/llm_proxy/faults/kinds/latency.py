"""`latency`: the answer comes late.

    ............  head  event 1  event 2  …
    │    by=   ├──┼─────┼────────┼────────

All of it is late by the same time, before the head or from its place on.  `by` is a span, or a
range such as `100..300ms`, of which each request has its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from llm_proxy import quantities
from llm_proxy.faults.injected import Effect
from llm_proxy.faults.kind import ANYWHERE, Argument, Kind, Moment, Strike, Struck, Work
from llm_proxy.faults.place import Place
from llm_proxy.quantities import Spread


@dataclass(frozen=True, slots=True)
class Latency:
    """A delay."""

    by: Spread

    def work(self, _place: Place | None, /) -> Work:
        """Before the head, or at its place."""
        return Strike(self._strike, before_head=True)

    def _strike(self, moment: Moment) -> Struck:
        return Struck(delay=self.by.at(moment.met.chance("by")))


KIND = Kind(
    "latency", Effect.SLOWED, "the answer comes late", Latency,
    {"by": Argument(quantities.spread, "how late: 300ms, or a range 100..300ms", needed=True)},
    places=ANYWHERE, example="latency,by=50ms",
)  # fmt: skip
