"""`status`: an HTTP error replaces the response.

    HTTP/1.1 503 …  {"error": …}
    ├───────────────────────────┤

The body uses the provider's error format.
"""

from __future__ import annotations

from typing import Final

from llm_proxy.faults.error_responses import RETRY_ARGUMENTS, http_error_response
from llm_proxy.faults.kind import FaultArgument, FaultEffect, FaultKind, ReplaceResponse

_ERROR_STATUSES: Final = range(400, 600)


def _parse_status(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or int(text) not in _ERROR_STATUSES:
        raise ValueError("an HTTP error status from 400 to 599")
    return int(text)


KIND = FaultKind(
    "status",
    FaultEffect.REFUSED,
    "an HTTP error instead of the response",
    lambda **values: ReplaceResponse(lambda context: http_error_response(context, **values)),
    {
        "code": FaultArgument(_parse_status, "HTTP status from 400 to 599", is_required=True),
        "message": FaultArgument(str, "error message; default: the provider's message"),
        "type": FaultArgument(str, "error type; default: the provider's type"),
        **RETRY_ARGUMENTS,
    },
    example="status,code=503",
)
