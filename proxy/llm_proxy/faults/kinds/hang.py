"""`hang`: no response is sent.

    request  .....................................  FIN
    ├────────┤              silence              ├──┤

The connection stays open without any bytes for the time `for=`, or for the longest silence
(`--silence`); then it is closed.  The real response is never fetched.  Shows whether a client has a
timeout.
"""

from __future__ import annotations

from llm_proxy import unit_parsers
from llm_proxy.faults.kind import FaultArgument, FaultEffect, FaultKind, ReplaceResponse

KIND = FaultKind(
    "hang",
    FaultEffect.UNANSWERED,
    "no answer comes, and the connection stays open",
    lambda for_=None: ReplaceResponse(lambda context: context.silence_until_close(0.0, for_)),
    {
        "for": FaultArgument(
            unit_parsers.parse_duration_ms, "how long; the longest silence if left out"
        )
    },
    example="hang,for=500ms",
)
