"""`stall`: the response stops, and the connection stays open.

    head  event 1  ............................  event 2  …
    ├─────┼────────┤          silence            ├────────┼──

With `for=` it goes on after that time; without, nothing more is sent, until the client closes the
connection or the longest silence (`--silence`) is over and the proxy closes it.
"""

from __future__ import annotations

from dataclasses import dataclass

from llm_proxy import unit_parsers
from llm_proxy.actions import Abort, Wait
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


@dataclass(frozen=True, slots=True)
class Stall:
    """Sends nothing for `for_` ms; None means that nothing follows."""

    for_: float | None = None

    def make_mechanism(self, _location: StreamLocation | None, /) -> Mechanism:
        """Pauses or ends the response at its location."""
        return OneShot(
            self._make_injected_actions,
            effect=FaultEffect.SLOWED if self.for_ is not None else None,
        )

    def _make_injected_actions(self, position: StreamPosition) -> InjectedActions:
        if self.for_ is not None:
            return InjectedActions(delay_ms=self.for_)
        return InjectedActions(
            (Wait(position.at_ms + position.context.max_silence_ms), Abort("fin")),
            ends_response=True,
        )


KIND = FaultKind(
    "stall", FaultEffect.STALLED, "the answer stops, and the connection stays open",
    Stall,
    {"for": FaultArgument(unit_parsers.parse_duration_ms, "how long; for ever where it is left "
                                                           "out")},
    allowed_locations=ALL_LOCATIONS, example="stall,after=1",
)  # fmt: skip
