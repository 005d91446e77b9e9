"""`hang`: no answer comes.

    request  .....................................  FIN
    ├────────┤              silence              ├──┤

The connection stays open, and nothing is written to it, for as long as `for=` says or until the
longest silence (`--silence`) is over; then it is closed.  Nobody is asked for the real answer.  It
is what shows whether a client has a timeout.
"""

from __future__ import annotations

from dataclasses import dataclass

from llm_proxy import unit_parsers
from llm_proxy.actions import Abort, Burst, Wait
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.kind import FaultArgument, FaultContext, FaultKind, ReplaceResponse, Work
from llm_proxy.faults.location import Place


@dataclass(frozen=True, slots=True)
class Hang:
    """A silence of so many ms; None is the longest that there is."""

    for_: float | None = None

    def mechanism(self, _place: Place | None, /) -> Work:
        """The silence."""
        return ReplaceResponse(self._replacement_response)

    def _replacement_response(self, context: FaultContext) -> Burst:
        return (Wait(context.silence if self.for_ is None else self.for_), Abort("fin"))


KIND = FaultKind(
    "hang", FaultEffect.UNANSWERED, "no answer comes, and the connection stays open", Hang,
    {"for": FaultArgument(unit_parsers.parse_milliseconds, "how long; the longest silence if "
                                                           "left out")},
    example="hang,for=500ms",
)  # fmt: skip
