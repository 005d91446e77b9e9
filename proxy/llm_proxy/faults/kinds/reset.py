"""`reset`: the connection is aborted with a TCP reset.

    head  event 1  event 2  RST
    ├─────┼────────┼────────X

Bytes that were sent before arrive; then the socket reports an error (`ECONNRESET`).  Without a
location, the reset comes before any response, and no real response is fetched.
"""

from __future__ import annotations

from dataclasses import dataclass

from llm_proxy.actions import Abort
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.kind import (
    ALL_LOCATIONS,
    FaultKind,
    InjectedActions,
    Mechanism,
    OneShot,
    ReplaceResponse,
)
from llm_proxy.faults.location import StreamLocation

_RESET_ACTIONS = (Abort("rst"),)


@dataclass(frozen=True, slots=True)
class Reset:
    """Resets the connection."""

    def make_mechanism(self, location: StreamLocation | None, /) -> Mechanism:
        """Ends the response at its location; without one, replaces the response."""
        if location is not None:
            return OneShot(lambda _: InjectedActions(_RESET_ACTIONS, ends_response=True))
        return ReplaceResponse(lambda _: _RESET_ACTIONS, FaultEffect.DISCONNECTED)


KIND = FaultKind(
    "reset",
    FaultEffect.CUT,
    "the connection is reset",
    Reset,
    allowed_locations=ALL_LOCATIONS,
    example="reset,after=1",
)
