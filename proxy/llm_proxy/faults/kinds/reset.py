"""`reset`: the connection is torn down, with a real reset.

    head  event 1  event 2  RST
    ├─────┼────────┼────────X

What was sent before arrives; then the socket reports an error (`ECONNRESET`).  Where no place is
given, it happens before any answer, and nobody is asked for one.
"""

from __future__ import annotations

from dataclasses import dataclass

from llm_proxy.actions import Abort
from llm_proxy.faults.fault_record import Effect
from llm_proxy.faults.kind import ANYWHERE, Instead, Kind, Strike, Struck, Work
from llm_proxy.faults.location import Place

_RESET = (Abort("rst"),)


@dataclass(frozen=True, slots=True)
class Reset:
    """A reset."""

    def work(self, place: Place | None, /) -> Work:
        """Amid the answer, or instead of it."""
        if place is not None:
            return Strike(lambda _: Struck(_RESET, over=True))
        return Instead(lambda _: _RESET, Effect.DISCONNECTED)


KIND = Kind(
    "reset", Effect.CUT, "the connection is reset", Reset, places=ANYWHERE, example="reset,after=1"
)
