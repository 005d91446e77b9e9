"""`hang-body`: the response head is sent, but no body.

head  .....................................  FIN
├─────┤              silence              ├──┤
"""

from __future__ import annotations

from llm_proxy import unit_parsers
from llm_proxy.faults.kind import (
    AfterBytes,
    FaultArgument,
    FaultEffect,
    FaultKind,
    InjectedActions,
    OneShot,
)

KIND = FaultKind(
    "hang-body",
    FaultEffect.UNANSWERED,
    "a response head, but no body",
    lambda for_=None: OneShot(
        lambda position: InjectedActions(
            position.context.silence_until_close(position.at_ms, for_), ends_response=True
        ),
        default_location=AfterBytes(0),
    ),
    {
        "for": FaultArgument(
            unit_parsers.parse_duration_ms,
            "how long to keep the connection open; default: the value of `--silence`",
        )
    },
    example="hang-body,for=500ms",
)
