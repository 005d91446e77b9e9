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
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.kind import (
    ANYWHERE,
    FaultKind,
    InjectedActions,
    OneShot,
    ReplaceResponse,
    Work,
)
from llm_proxy.faults.location import Place

_CLOSED = (Abort("fin"),)


@dataclass(frozen=True, slots=True)
class Close:
    """A close."""

    def mechanism(self, place: Place | None, /) -> Work:
        """Amid the answer, or instead of it."""
        if place is not None:
            return OneShot(lambda _: InjectedActions(_CLOSED, ends_response=True))
        return ReplaceResponse(lambda _: _CLOSED, FaultEffect.DISCONNECTED)


KIND = FaultKind(
    "close", FaultEffect.CUT, "the connection is closed before its "
                              "time", Close, allowed_locations=ANYWHERE,
    example="close,after=1",
)  # fmt: skip
