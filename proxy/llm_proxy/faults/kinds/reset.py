"""`reset`: the connection is torn down, with a real reset.

    head  event 1  event 2  RST
    ├─────┼────────┼────────X

What was sent before arrives; then the socket reports an error (`ECONNRESET`).  Where no place is
given, it happens before any answer, and nobody is asked for one.
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

_RESET = (Abort("rst"),)


@dataclass(frozen=True, slots=True)
class Reset:
    """A reset."""

    def mechanism(self, place: Place | None, /) -> Work:
        """Amid the answer, or instead of it."""
        if place is not None:
            return OneShot(lambda _: InjectedActions(_RESET, ends_response=True))
        return ReplaceResponse(lambda _: _RESET, FaultEffect.DISCONNECTED)


KIND = FaultKind(
    "reset",
    FaultEffect.CUT,
    "the connection is reset",
    Reset,
    allowed_locations=ANYWHERE,
    example="reset,after=1",
)
