"""`close`: the connection is closed too early.

    head  event 1  event 2  FIN
    ├─────┼────────┼────────┤

The body is incomplete by HTTP: the last chunk, of size 0, or bytes of the declared length are
missing.  Where a body is delimited by closing, a reset is sent instead.  Without a location, the
connection is closed before any response, and no real response is fetched.
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

_CLOSE_ACTIONS = (Abort("fin"),)


@dataclass(frozen=True, slots=True)
class Close:
    """Closes the connection."""

    def make_mechanism(self, location: StreamLocation | None, /) -> Mechanism:
        """Ends the response at its location; without one, replaces the response."""
        if location is not None:
            return OneShot(lambda _: InjectedActions(_CLOSE_ACTIONS, ends_response=True))
        return ReplaceResponse(lambda _: _CLOSE_ACTIONS, FaultEffect.DISCONNECTED)


KIND = FaultKind(
    "close", FaultEffect.CUT, "the connection is closed before its "
                              "time", Close, allowed_locations=ALL_LOCATIONS,
    example="close,after=1",
)  # fmt: skip
