"""`error-event`: the provider says amid its answer that it failed.

    HTTP/1.1 200 OK  event 1  event 2  event: error …
    ├────────────────┼────────┼────────┼─────────────┤

The status was one of success already, so nobody asks again by itself.  The error has the provider's
own shape (`{"error": …}`, Anthropic's event `error`, `response.failed`, an exception of an event
stream), and then the stream ends as that provider ends it.  It has no meaning in a whole body: a
provider says it with an HTTP error there, which is `status`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from llm_proxy.faults import reencoding
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.kind import (
    AT_MESSAGES,
    STREAMS,
    FaultArgument,
    FaultKind,
    InjectedActions,
    OneShot,
    StreamPosition,
    Work,
)
from llm_proxy.faults.location import Place
from llm_proxy.turns import Failure, Turn

_MESSAGE = "The server had an error while processing your request."


@dataclass(frozen=True, slots=True)
class ErrorEvent:
    """An error of the provider's."""

    message: str = _MESSAGE
    type: str = ""

    def mechanism(self, _place: Place | None, /) -> Work:
        """The error, at its place."""
        return OneShot(self._inject, changes_length=True)

    def _inject(self, position: StreamPosition) -> InjectedActions:
        failed = Turn((), failure=Failure(self.message, type=self.type))
        reencoding.convert_for_response(position, failed)
        return InjectedActions(
            reencoding.encode_ending(position, self._failed_turn), ends_response=True
        )

    def _failed_turn(self, so_far: Turn) -> Turn:
        return replace(so_far, failure=Failure(self.message, type=self.type))


KIND = FaultKind(
    "error-event", FaultEffect.FAILED, "the provider's own error amid its answer", ErrorEvent,
    {
        "message": FaultArgument(str, "what the error says", _MESSAGE),
        "type": FaultArgument(str, "the error's type; the provider's own if left out"),
    },
    allowed_locations=AT_MESSAGES | {"ms"}, allowed_bodies=STREAMS, example="error-event,after=3",
)  # fmt: skip
