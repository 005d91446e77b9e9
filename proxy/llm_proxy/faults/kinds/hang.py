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
from llm_proxy.faults.fault_record import Effect
from llm_proxy.faults.kind import Argument, Instead, Kind, Met, Work
from llm_proxy.faults.location import Place


@dataclass(frozen=True, slots=True)
class Hang:
    """A silence of so many ms; None is the longest that there is."""

    for_: float | None = None

    def work(self, _place: Place | None, /) -> Work:
        """The silence."""
        return Instead(self._answer)

    def _answer(self, met: Met) -> Burst:
        return (Wait(met.silence if self.for_ is None else self.for_), Abort("fin"))


KIND = Kind(
    "hang", Effect.UNANSWERED, "no answer comes, and the connection stays open", Hang,
    {"for": Argument(unit_parsers.milliseconds, "how long; the longest silence if left out")},
    example="hang,for=500ms",
)  # fmt: skip
