"""`overloaded`: the provider's overload error replaces the response.

    HTTP/1.1 529 …  {"type": "error", "error": {"type": "overloaded_error", …}}
    ├─────────────────────────────────────────────────────────────────────────┤

Anthropic sends HTTP 529; other providers send HTTP 503.
"""

from __future__ import annotations

from llm_proxy import unit_parsers
from llm_proxy.faults.error_responses import RETRY_ARGUMENTS, http_error_response
from llm_proxy.faults.kind import FaultArgument, FaultEffect, FaultKind, ReplaceResponse

KIND = FaultKind(
    "overloaded",
    FaultEffect.REFUSED,
    "the provider's overload error",
    lambda **retry_values: ReplaceResponse(
        lambda context: http_error_response(
            context, context.decoded_request.dialect.overloaded_status, **retry_values
        )
    ),
    {
        **RETRY_ARGUMENTS,
        "retry-after": FaultArgument(
            unit_parsers.parse_duration_ms,
            "retry delay, sent in headers such as `Retry-After`",
        ),
    },
    example="overloaded",
)
