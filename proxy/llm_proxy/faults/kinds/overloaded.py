"""`overloaded`: the provider's overload error replaces the response.

    HTTP/1.1 529 …  {"type": "error", "error": {"type": "overloaded_error", …}}
    ├─────────────────────────────────────────────────────────────────────────┤

Anthropic sends HTTP 529; other providers send HTTP 503.
"""

from __future__ import annotations

from llm_proxy.faults.error_responses import RETRY_ARGUMENTS, http_error_response
from llm_proxy.faults.kind import FaultEffect, FaultKind, ReplaceResponse

KIND = FaultKind(
    "overloaded",
    FaultEffect.REFUSED,
    "the provider's overload error",
    lambda **retry_values: ReplaceResponse(
        lambda context: http_error_response(
            context, context.decoded_request.dialect.overloaded_status, **retry_values
        )
    ),
    RETRY_ARGUMENTS,
    example="overloaded",
)
