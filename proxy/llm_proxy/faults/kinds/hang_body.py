"""`hang-body`: the head comes, and nothing behind it.

    head  .....................................  FIN
    ├─────┤              silence              ├──┤

The connection stays open for as long as `for=` says, or until the longest silence (`--silence`) is
over; then it is closed, before its time.  Clients whose timeout ends with the head wait on.
"""

from __future__ import annotations

from dataclasses import dataclass

from llm_proxy import unit_parsers
from llm_proxy.actions import Abort, Wait
from llm_proxy.faults.fault_record import Effect
from llm_proxy.faults.kind import Argument, Kind, Moment, Strike, Struck, Work
from llm_proxy.faults.location import AfterBytes, Place


@dataclass(frozen=True, slots=True)
class HangBody:
    """A silence of so many ms; None is the longest that there is."""

    for_: float | None = None

    def work(self, _place: Place | None, /) -> Work:
        """The silence, behind the head."""
        return Strike(self._strike, usual=AfterBytes(0))

    def _strike(self, moment: Moment) -> Struck:
        silence = moment.met.silence if self.for_ is None else self.for_
        return Struck((Wait(moment.at + silence), Abort("fin")), over=True)


KIND = Kind(
    "hang-body", Effect.UNANSWERED, "the head comes, and nothing behind it", HangBody,
    {"for": Argument(unit_parsers.milliseconds, "how long; the longest silence if left out")},
    example="hang-body,for=500ms",
)  # fmt: skip
