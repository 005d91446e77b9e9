"""`error-event`: the provider reports an error in the middle of its response.

    HTTP/1.1 200 OK  event 1  event 2  event: error …
    ├────────────────┼────────┼────────┼─────────────┤

The stream ends with an error in the provider's format, such as `{"error": …}` or
`response.failed`.
"""

from __future__ import annotations

from dataclasses import replace

from llm_proxy.faults import reencoding
from llm_proxy.faults.kind import (
    MESSAGE_LOCATIONS,
    STREAM_CODECS,
    FaultArgument,
    FaultEffect,
    FaultKind,
    InjectedActions,
    Mechanism,
    OneShot,
    StreamPosition,
)
from llm_proxy.turns import Failure, Turn


def _error_event(**values: str) -> Mechanism:
    failure = Failure(**values)

    def end_with_failure(position: StreamPosition) -> InjectedActions:
        reencoding.to_representable_turn(position, Turn((), failure=failure))
        return reencoding.inject_ending(position, lambda turn: replace(turn, failure=failure))

    return OneShot(end_with_failure, changes_length=True)


KIND = FaultKind(
    "error-event",
    FaultEffect.FAILED,
    "a provider error within a stream",
    _error_event,
    {
        "message": FaultArgument(
            str,
            "error message",
            "The server had an error while processing your request.",
        ),
        "type": FaultArgument(str, "error type; default: the provider's type"),
    },
    allowed_locations=MESSAGE_LOCATIONS | {"ms"},
    allowed_codecs=STREAM_CODECS,
    example="error-event,after=3",
)
