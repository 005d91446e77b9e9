"""`hang`: no response is sent.

request  .....................................  FIN
├────────┤              silence              ├──┤
"""

from __future__ import annotations

from llm_proxy import unit_parsers
from llm_proxy.faults.kind import FaultArgument, FaultEffect, FaultKind, ReplaceResponse

KIND = FaultKind(
    "hang",
    FaultEffect.UNANSWERED,
    "no response on an open connection",
    lambda for_=None: ReplaceResponse(lambda context: context.silence_until_close(0.0, for_)),
    {
        "for": FaultArgument(
            unit_parsers.parse_duration_ms,
            "how long to keep the connection open; default: the value of `--silence`",
        )
    },
    example="hang,for=500ms",
)
