"""`status`: an HTTP error in place of the response.

    HTTP/1.1 503 …  {"error": …}
    ├───────────────────────────┤

The body has the dialect's error format, with the provider's message for this status.  The real
response is never fetched.  `retry-after` is sent exactly, and `x-should-retry` only where
`should-retry` is given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from llm_proxy import unit_parsers
from llm_proxy.actions import Burst
from llm_proxy.faults.error_responses import ErrorSpec, http_error_response
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.kind import FaultArgument, FaultContext, FaultKind, Mechanism, ReplaceResponse
from llm_proxy.faults.location import StreamLocation

ERROR_STATUSES: Final = range(400, 600)


@dataclass(frozen=True, slots=True)
class Status:
    """Sends an HTTP error with this status code."""

    code: int
    message: str = ""
    type: str = ""
    retry_after: float | None = None
    """ms."""
    should_retry: bool | None = None

    def make_mechanism(self, _location: StreamLocation | None, /) -> Mechanism:
        """Replaces the response."""
        return ReplaceResponse(self._replacement_response)

    def _replacement_response(self, context: FaultContext) -> Burst:
        retry_fields = (self.retry_after, self.should_retry)
        return http_error_response(
            context, ErrorSpec(self.code, self.message, self.type, *retry_fields)
        )


def parse_error_status(text: str) -> int:
    """Parses a status code from 400 to 599.  Raises `ValueError`."""
    if not text.isascii() or not text.isdecimal() or int(text) not in ERROR_STATUSES:
        raise ValueError("the status of an HTTP error, from 400 to 599")
    return int(text)


KIND = FaultKind(
    "status", FaultEffect.REFUSED, "an HTTP error in place of the answer", Status,
    {
        "code": FaultArgument(parse_error_status, "the status, from 400 to 599", is_required=True),
        "message": FaultArgument(str, "what the error says; a sentence of its own if left out"),
        "type": FaultArgument(str, "the error's type; the provider's own if left out"),
        "retry-after": FaultArgument(unit_parsers.parse_duration_ms, "how long the client is "
                                                                      "told to wait"),
        "should-retry": FaultArgument(unit_parsers.parse_bool, "the header x-should-retry; none "
                                                               "if left out"),
    },
    example="status,code=503",
)  # fmt: skip
