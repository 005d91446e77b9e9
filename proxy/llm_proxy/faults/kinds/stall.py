"""`stall`: the answer stops, and the connection stays open.

    head  event 1  ............................  event 2  …
    ├─────┼────────┤          silence            ├────────┼──

With `for=` it goes on after that time; without, nothing more comes, until the client leaves or the
longest silence (`--silence`) is over, and the connection is closed.
"""

from __future__ import annotations

from dataclasses import dataclass

from llm_proxy import unit_parsers
from llm_proxy.actions import Abort, Wait
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


@dataclass(frozen=True, slots=True)
class Stall:
    """A silence of so many ms; None is one that does not end."""

    for_: float | None = None

    def mechanism(self, _place: Place | None, /) -> Work:
        """The silence, at its place."""
        return OneShot(self._inject, effect=FaultEffect.SLOWED if self.for_ is not None else None)

    def _inject(self, position: StreamPosition) -> InjectedActions:
        if self.for_ is not None:
            return InjectedActions(delay=self.for_)
        return InjectedActions(
            (Wait(position.at + position.context.silence), Abort("fin")), ends_response=True
        )


KIND = FaultKind(
    "stall", FaultEffect.STALLED, "the answer stops, and the connection stays open",
    Stall,
    {"for": FaultArgument(unit_parsers.parse_milliseconds, "how long; for ever where it is left "
                                                           "out")},
    allowed_locations=ANYWHERE, example="stall,after=1",
)  # fmt: skip
