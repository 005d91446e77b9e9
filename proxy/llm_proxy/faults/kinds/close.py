"""`close`: the connection is closed too early.

    head  event 1  event 2  FIN
    ├─────┼────────┼────────┤

If closing the connection delimits the body, a reset is sent instead.  Without a location, the
connection is closed before any response.
"""

from __future__ import annotations

from llm_proxy.actions import Abort
from llm_proxy.faults.kind import ALL_LOCATIONS, FaultEffect, FaultKind
from llm_proxy.faults.kinds.reset import connection_abort

KIND = FaultKind(
    "close",
    FaultEffect.CUT,
    "an early close of the connection",
    lambda: connection_abort(Abort("fin")),
    allowed_locations=ALL_LOCATIONS,
    example="close,after=1",
)
