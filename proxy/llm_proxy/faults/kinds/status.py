"""`status`: an HTTP error in place of the response.

    HTTP/1.1 503 …  {"error": …}
    ├───────────────────────────┤

The body has the dialect's error format, with the provider's message for this status.  The real
response is never fetched.  `retry-after` is sent exactly, and `x-should-retry` only where
`should-retry` is given.
"""

from __future__ import annotations

from typing import Final

from llm_proxy.faults.error_responses import RETRY_ARGUMENTS, http_error_response
from llm_proxy.faults.kind import FaultArgument, FaultEffect, FaultKind, ReplaceResponse

_ERROR_STATUSES: Final = range(400, 600)


def _parse_status(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or int(text) not in _ERROR_STATUSES:
        raise ValueError("the status of an HTTP error, from 400 to 599")
    return int(text)


KIND = FaultKind(
    "status",
    FaultEffect.REFUSED,
    "an HTTP error in place of the answer",
    lambda **values: ReplaceResponse(lambda context: http_error_response(context, **values)),
    {
        "code": FaultArgument(_parse_status, "the status, from 400 to 599", is_required=True),
        "message": FaultArgument(str, "what the error says; a sentence of its own if left out"),
        "type": FaultArgument(str, "the error's type; the provider's own if left out"),
        **RETRY_ARGUMENTS,
    },
    example="status,code=503",
)
