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
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.kind import (
    FaultArgument,
    FaultKind,
    InjectedActions,
    OneShot,
    StreamPosition,
    Work,
)
from llm_proxy.faults.location import AfterBytes, Place


@dataclass(frozen=True, slots=True)
class HangBody:
    """A silence of so many ms; None is the longest that there is."""

    for_: float | None = None

    def mechanism(self, _place: Place | None, /) -> Work:
        """The silence, behind the head."""
        return OneShot(self._inject, default_location=AfterBytes(0))

    def _inject(self, position: StreamPosition) -> InjectedActions:
        silence = position.context.silence if self.for_ is None else self.for_
        return InjectedActions((Wait(position.at + silence), Abort("fin")), ends_response=True)


KIND = FaultKind(
    "hang-body", FaultEffect.UNANSWERED, "the head comes, and nothing behind it", HangBody,
    {"for": FaultArgument(unit_parsers.parse_milliseconds, "how long; the longest silence if "
                                                           "left out")},
    example="hang-body,for=500ms",
)  # fmt: skip
