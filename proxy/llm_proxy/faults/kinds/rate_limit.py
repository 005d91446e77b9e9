"""`rate-limit`: the provider's rate limit error (HTTP 429) replaces the response.

    HTTP/1.1 429 …  retry-after: 1  x-ratelimit-remaining-requests: 0  {"error": …}
    ├─────────────────────────────────────────────────────────────────────────────┤

The error message, rate limit headers and retry delay use the provider's format. The default retry
delay is one second.
"""

from __future__ import annotations

from typing import Any, Final

from llm_proxy.actions import Burst
from llm_proxy.dialects.encoding import AccountLimits, RateLimitWindow
from llm_proxy.faults.error_responses import RETRY_ARGUMENTS, http_error_response
from llm_proxy.faults.kind import FaultContext, FaultEffect, FaultKind, Mechanism, ReplaceResponse

TOO_MANY_REQUESTS: Final = 429
_DEFAULT_RETRY_DELAY_MS: Final = 1000.0
"""The retry delay where the rule gives none."""
_REQUEST_LIMIT: Final = 60
_TOKEN_LIMIT: Final = 60_000
"""The limits that the rate limit headers declare."""


def _rate_limit(retry_after: float | None = None, **retry_values: Any) -> Mechanism:
    delay_ms = _DEFAULT_RETRY_DELAY_MS if retry_after is None else retry_after
    limits = AccountLimits(
        RateLimitWindow(_REQUEST_LIMIT, 0, delay_ms / 1000),
        RateLimitWindow(_TOKEN_LIMIT, 0, delay_ms / 1000),
    )

    def make_response(context: FaultContext) -> Burst:
        return http_error_response(
            context,
            TOO_MANY_REQUESTS,
            retry_after=retry_after,
            account_limits=limits,
            provider_delay_ms=delay_ms,
            **retry_values,
        )

    return ReplaceResponse(make_response)


KIND = FaultKind(
    "rate-limit",
    FaultEffect.REFUSED,
    "the provider's rate limit error",
    _rate_limit,
    RETRY_ARGUMENTS,
    example="rate-limit,retry-after=50ms",
)
