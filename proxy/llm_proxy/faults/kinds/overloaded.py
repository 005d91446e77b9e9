"""`overloaded`: the provider's error response for overload.

    HTTP/1.1 529 …  {"type": "error", "error": {"type": "overloaded_error", …}}
    ├─────────────────────────────────────────────────────────────────────────┤

Status and message are the provider's own: Anthropic sends 529, others 503.  The real response is
never fetched.
"""

from __future__ import annotations

from dataclasses import dataclass

from llm_proxy import unit_parsers
from llm_proxy.actions import Burst
from llm_proxy.faults.error_responses import ErrorSpec, http_error_response
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.kind import FaultArgument, FaultContext, FaultKind, Mechanism, ReplaceResponse
from llm_proxy.faults.location import StreamLocation


@dataclass(frozen=True, slots=True)
class Overloaded:
    """Sends the provider's overload error."""

    retry_after: float | None = None
    """ms."""
    should_retry: bool | None = None

    def make_mechanism(self, _location: StreamLocation | None, /) -> Mechanism:
        """Replaces the response."""
        return ReplaceResponse(self._replacement_response)

    def _replacement_response(self, context: FaultContext) -> Burst:
        status = context.decoded_request.dialect.overloaded_status
        retry_fields = (self.retry_after, self.should_retry)
        return http_error_response(context, ErrorSpec(status, "", "", *retry_fields))


KIND = FaultKind(
    "overloaded", FaultEffect.REFUSED, "the provider's 529 or 503", Overloaded,
    {
        "retry-after": FaultArgument(
            unit_parsers.parse_duration_ms, "how long the client is told to wait; nothing if "
                                             "left out"
        ),
        "should-retry": FaultArgument(unit_parsers.parse_bool, "the header x-should-retry; none "
                                                               "if left out"),
    },
    example="overloaded",
)  # fmt: skip
