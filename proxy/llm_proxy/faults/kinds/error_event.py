"""`error-event`: the provider reports an error in the middle of its response.

    HTTP/1.1 200 OK  event 1  event 2  event: error …
    ├────────────────┼────────┼────────┼─────────────┤

The status was a success already, so no client retries by itself.  The error has the provider's
format (`{"error": …}`, Anthropic's event `error`, `response.failed`, an exception frame of an event
stream), and then the stream ends as that provider ends it.  Not applicable to a whole body: there a
provider reports errors by the HTTP status, which is the fault `status`.
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
    "the provider's own error amid its answer",
    _error_event,
    {
        "message": FaultArgument(
            str,
            "what the error says",
            "The server had an error while processing your request.",
        ),
        "type": FaultArgument(str, "the error's type; the provider's own if left out"),
    },
    allowed_locations=MESSAGE_LOCATIONS | {"ms"},
    allowed_codecs=STREAM_CODECS,
    example="error-event,after=3",
)
