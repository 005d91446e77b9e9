"""`rate-limit`: the provider's 429 for too many requests.

    HTTP/1.1 429 …  retry-after: 1  x-ratelimit-remaining-requests: 0  {"error": …}
    ├─────────────────────────────────────────────────────────────────────────────┤

Status, message, rate limit headers and retry delay have the provider's format; the delay is one
second.  A `retry-after` that is given is sent exactly, to the millisecond.  Most SDKs retry after
it; Google's and Ollama's raise at once.  `quota` refuses only what exceeds a limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from llm_proxy import unit_parsers
from llm_proxy.actions import Burst
from llm_proxy.dialects.encode_context import AccountLimits, RateLimitWindow
from llm_proxy.faults.error_responses import ErrorSpec, http_error_response
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.kind import FaultArgument, FaultContext, FaultKind, Mechanism, ReplaceResponse
from llm_proxy.faults.location import StreamLocation

TOO_MANY_REQUESTS: Final = 429
_DEFAULT_RETRY_DELAY_MS: Final = 1000.0
"""The retry delay where the rule gives none."""
_REQUEST_LIMIT: Final = 60
_TOKEN_LIMIT: Final = 60_000
"""The limits that the rate limit headers declare."""


@dataclass(frozen=True, slots=True)
class RateLimit:
    """Sends the provider's rate limit error."""

    retry_after: float | None = None
    """ms."""
    should_retry: bool | None = None

    def make_mechanism(self, _location: StreamLocation | None, /) -> Mechanism:
        """Replaces the response."""
        return ReplaceResponse(self._replacement_response)

    def _replacement_response(self, context: FaultContext) -> Burst:
        retry_delay_ms = _DEFAULT_RETRY_DELAY_MS if self.retry_after is None else self.retry_after
        requests, tokens = (
            RateLimitWindow(limit, 0, retry_delay_ms / 1000)
            for limit in (_REQUEST_LIMIT, _TOKEN_LIMIT)
        )
        error_spec = ErrorSpec(
            TOO_MANY_REQUESTS, retry_after_ms=self.retry_after, should_retry=self.should_retry,
            account_limits=AccountLimits(requests, tokens), provider_retry_delay_ms=retry_delay_ms,
        )  # fmt: skip
        return http_error_response(context, error_spec)


KIND = FaultKind(
    "rate-limit", FaultEffect.REFUSED, "the provider's 429, with its countdown", RateLimit,
    {
        "retry-after": FaultArgument(unit_parsers.parse_duration_ms, "how long the client is "
                                                                      "told to wait"),
        "should-retry": FaultArgument(unit_parsers.parse_bool, "the header x-should-retry; none "
                                                               "if left out"),
    },
    example="rate-limit,retry-after=50ms",
)  # fmt: skip
