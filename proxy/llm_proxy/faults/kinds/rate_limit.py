"""`rate-limit`: the provider refuses, for too much was asked of it.

    HTTP/1.1 429 …  retry-after: 1  x-ratelimit-remaining-requests: 0  {"error": …}
    ├─────────────────────────────────────────────────────────────────────────────┤

Status, words, countdown headers and the wait are the provider's own: a second, told as it tells
waits.  A `retry-after` that is given is told as it was written, to the millisecond.  Most SDKs ask
again after it; Google's and Ollama's raise at once.  `quota` refuses only what is too much.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from llm_proxy import unit_parsers
from llm_proxy.actions import Burst
from llm_proxy.dialects.encode_context import AccountLimits, RateLimitWindow
from llm_proxy.faults.error_responses import ErrorSpec, refusal_response
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.kind import FaultArgument, FaultContext, FaultKind, ReplaceResponse, Work
from llm_proxy.faults.location import Place

STATUS: Final = 429
_USUAL: Final = 1000.0
"""ms to wait where none are given."""
_REQUESTS: Final = 60
_TOKENS: Final = 60_000
"""What an account is told to be allowed, where nothing says it."""


@dataclass(frozen=True, slots=True)
class RateLimit:
    """The refusal of a request too many."""

    retry_after: float | None = None
    """ms."""
    should_retry: bool | None = None

    def mechanism(self, _place: Place | None, /) -> Work:
        """The error."""
        return ReplaceResponse(self._replacement_response)

    def _replacement_response(self, context: FaultContext) -> Burst:
        wait = _USUAL if self.retry_after is None else self.retry_after
        requests, tokens = (RateLimitWindow(item, 0, wait / 1000) for item in (_REQUESTS, _TOKENS))
        refusal = ErrorSpec(
            STATUS, retry_after=self.retry_after, should_retry=self.should_retry,
            quota=AccountLimits(requests, tokens), retry_until=wait,
        )  # fmt: skip
        return refusal_response(context, refusal)


KIND = FaultKind(
    "rate-limit", FaultEffect.REFUSED, "the provider's 429, with its countdown", RateLimit,
    {
        "retry-after": FaultArgument(unit_parsers.parse_milliseconds, "how long the client is "
                                                                      "told to wait"),
        "should-retry": FaultArgument(unit_parsers.parse_bool, "the header x-should-retry; none "
                                                               "if left out"),
    },
    example="rate-limit,retry-after=50ms",
)  # fmt: skip
