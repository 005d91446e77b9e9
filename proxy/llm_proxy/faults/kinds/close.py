"""`close`: the connection is closed, before its time.

    head  event 1  event 2  FIN
    ├─────┼────────┼────────┤

HTTP says that more should come: a chunk of size 0, or the bytes that were declared, are missing.
Where closing is how a body ends, a reset says so instead.  Where no place is given, it happens
before any answer, and nobody is asked for one.
"""

from __future__ import annotations

from dataclasses import dataclass

from llm_proxy.actions import Abort
from llm_proxy.faults.fault_record import Effect
from llm_proxy.faults.kind import ANYWHERE, Instead, Kind, Strike, Struck, Work
from llm_proxy.faults.location import Place

_CLOSED = (Abort("fin"),)


@dataclass(frozen=True, slots=True)
class Close:
    """A close."""

    def work(self, place: Place | None, /) -> Work:
        """Amid the answer, or instead of it."""
        if place is not None:
            return Strike(lambda _: Struck(_CLOSED, over=True))
        return Instead(lambda _: _CLOSED, Effect.DISCONNECTED)


KIND = Kind(
    "close", Effect.CUT, "the connection is closed before its time", Close, places=ANYWHERE,
    example="close,after=1",
)  # fmt: skip
