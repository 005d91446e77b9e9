"""`close`: the connection is closed too early.

    head  event 1  event 2  FIN
    ├─────┼────────┼────────┤

If the response has no `Content-Length` and is not chunked, the connection is reset instead. Without
a location, the connection is closed before the response.
"""

from __future__ import annotations

from llm_proxy.actions import Abort
from llm_proxy.faults.kind import ALL_LOCATIONS, FaultEffect, FaultKind
from llm_proxy.faults.kinds.reset import connection_abort

KIND = FaultKind(
    "close",
    FaultEffect.CUT,
    "a connection closed too early",
    lambda: connection_abort(Abort("fin")),
    allowed_locations=ALL_LOCATIONS,
    example="close,after=1",
)
