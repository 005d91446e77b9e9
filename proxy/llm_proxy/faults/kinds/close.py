"""`close`: the connection is closed too early.

    head  event 1  event 2  FIN
    ├─────┼────────┼────────┤

The body is incomplete by HTTP: the last chunk, of size 0, or bytes of the declared length are
missing.  Where a body is delimited by closing, a reset is sent instead.  Without a location, the
connection is closed before any response, and no real response is fetched.
"""

from __future__ import annotations

from llm_proxy.actions import Abort
from llm_proxy.faults.kind import ALL_LOCATIONS, FaultEffect, FaultKind
from llm_proxy.faults.kinds.reset import connection_abort

KIND = FaultKind(
    "close",
    FaultEffect.CUT,
    "the connection is closed before its time",
    lambda: connection_abort(Abort("fin")),
    allowed_locations=ALL_LOCATIONS,
    example="close,after=1",
)
