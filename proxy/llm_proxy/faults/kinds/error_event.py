"""`error-event`: the provider reports an error in the middle of its response.

    HTTP/1.1 200 OK  event 1  event 2  event: error …
    ├────────────────┼────────┼────────┼─────────────┤

The status was a success already, so no client retries by itself.  The error has the provider's
format (`{"error": …}`, Anthropic's event `error`, `response.failed`, an exception frame of an event
stream), and then the stream ends as that provider ends it.  Not applicable to a whole body: there a
provider reports errors by the HTTP status, which is the fault `status`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from llm_proxy.faults import reencoding
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.kind import (
    MESSAGE_LOCATIONS,
    STREAM_CODECS,
    FaultArgument,
    FaultKind,
    InjectedActions,
    Mechanism,
    OneShot,
    StreamPosition,
)
from llm_proxy.faults.location import StreamLocation
from llm_proxy.turns import Failure, Turn

_DEFAULT_MESSAGE = "The server had an error while processing your request."


@dataclass(frozen=True, slots=True)
class ErrorEvent:
    """Ends the stream with an error of the provider."""

    message: str = _DEFAULT_MESSAGE
    type: str = ""

    def make_mechanism(self, _location: StreamLocation | None, /) -> Mechanism:
        """Ends the response at its location."""
        return OneShot(self._make_injected_actions, changes_length=True)

    def _make_injected_actions(self, position: StreamPosition) -> InjectedActions:
        failed_turn = Turn((), failure=Failure(self.message, type=self.type))
        reencoding.to_representable_turn(position, failed_turn)
        return InjectedActions(
            reencoding.encode_ending_actions(position, self._with_failure), ends_response=True
        )

    def _with_failure(self, so_far: Turn) -> Turn:
        return replace(so_far, failure=Failure(self.message, type=self.type))


KIND = FaultKind(
    "error-event", FaultEffect.FAILED, "the provider's own error amid its answer", ErrorEvent,
    {
        "message": FaultArgument(str, "what the error says", _DEFAULT_MESSAGE),
        "type": FaultArgument(str, "the error's type; the provider's own if left out"),
    },
    allowed_locations=MESSAGE_LOCATIONS | {"ms"}, allowed_codecs=STREAM_CODECS,
    example="error-event,after=3",
)  # fmt: skip
