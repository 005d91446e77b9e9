"""`status`: an HTTP error in place of the answer.

    HTTP/1.1 503 …  {"error": …}
    ├───────────────────────────┤

The body has the dialect's own shape, with the words that the provider has for this status. Nobody
is asked for the real answer. What `retry-after` says is told as it was written, and there is no
`x-should-retry` unless `should-retry` says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from llm_proxy import unit_parsers
from llm_proxy.actions import Burst
from llm_proxy.faults.error_responses import ErrorSpec, refusal_response
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.kind import FaultArgument, FaultContext, FaultKind, ReplaceResponse, Work
from llm_proxy.faults.location import Place

CODES: Final = range(400, 600)


@dataclass(frozen=True, slots=True)
class Status:
    """An HTTP error."""

    code: int
    message: str = ""
    type: str = ""
    retry_after: float | None = None
    """ms."""
    should_retry: bool | None = None

    def mechanism(self, _place: Place | None, /) -> Work:
        """The error."""
        return ReplaceResponse(self._replacement_response)

    def _replacement_response(self, context: FaultContext) -> Burst:
        again = (self.retry_after, self.should_retry)
        return refusal_response(context, ErrorSpec(self.code, self.message, self.type, *again))


def parse_code(text: str) -> int:
    """The status of an HTTP error."""
    if not text.isascii() or not text.isdecimal() or int(text) not in CODES:
        raise ValueError("the status of an HTTP error, from 400 to 599")
    return int(text)


KIND = FaultKind(
    "status", FaultEffect.REFUSED, "an HTTP error in place of the answer", Status,
    {
        "code": FaultArgument(parse_code, "the status, from 400 to 599", is_required=True),
        "message": FaultArgument(str, "what the error says; a sentence of its own if left out"),
        "type": FaultArgument(str, "the error's type; the provider's own if left out"),
        "retry-after": FaultArgument(unit_parsers.parse_milliseconds, "how long the client is "
                                                                      "told to wait"),
        "should-retry": FaultArgument(unit_parsers.parse_bool, "the header x-should-retry; none "
                                                               "if left out"),
    },
    example="status,code=503",
)  # fmt: skip
