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
from llm_proxy.faults.fault_record import Effect
from llm_proxy.faults.kind import ANYWHERE, Argument, Kind, Moment, Strike, Struck, Work
from llm_proxy.faults.location import Place


@dataclass(frozen=True, slots=True)
class Stall:
    """A silence of so many ms; None is one that does not end."""

    for_: float | None = None

    def work(self, _place: Place | None, /) -> Work:
        """The silence, at its place."""
        return Strike(self._strike, effect=Effect.SLOWED if self.for_ is not None else None)

    def _strike(self, moment: Moment) -> Struck:
        if self.for_ is not None:
            return Struck(delay=self.for_)
        return Struck((Wait(moment.at + moment.met.silence), Abort("fin")), over=True)


KIND = Kind(
    "stall", Effect.STALLED, "the answer stops, and the connection stays open",
    Stall,
    {"for": Argument(unit_parsers.milliseconds, "how long; for ever where it is left out")},
    places=ANYWHERE, example="stall,after=1",
)  # fmt: skip
