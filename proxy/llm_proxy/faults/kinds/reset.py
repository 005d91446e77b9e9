"""`reset`: the connection is aborted with a TCP reset.

    head  event 1  event 2  RST
    ├─────┼────────┼────────X

The client's socket reports `ECONNRESET`. Without a location, the connection is reset before any
response.
"""

from __future__ import annotations

from llm_proxy.actions import Abort
from llm_proxy.faults.kind import (
    ALL_LOCATIONS,
    FaultEffect,
    FaultKind,
    InjectedActions,
    OneShot,
    ReplaceResponse,
)


def connection_abort(abort: Abort) -> OneShot:
    """The mechanism that aborts the connection; without a location, before the response."""
    return OneShot(
        lambda _: InjectedActions((abort,), ends_response=True),
        without_location=ReplaceResponse(lambda _: (abort,), FaultEffect.DISCONNECTED),
    )


KIND = FaultKind(
    "reset",
    FaultEffect.CUT,
    "a TCP reset",
    lambda: connection_abort(Abort("rst")),
    allowed_locations=ALL_LOCATIONS,
    example="reset,after=1",
)
