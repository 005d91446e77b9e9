"""`overloaded`: the provider has too much to do.

    HTTP/1.1 529 …  {"type": "error", "error": {"type": "overloaded_error", …}}
    ├─────────────────────────────────────────────────────────────────────────┤

Each provider says so by a status of its own, in its own words: Anthropic by 529, others by 503.
Nobody is asked for the real answer.
"""

from __future__ import annotations

from dataclasses import dataclass

from llm_proxy import unit_parsers
from llm_proxy.actions import Burst
from llm_proxy.faults.error_responses import ErrorSpec, refusal_response
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.kind import FaultArgument, FaultContext, FaultKind, ReplaceResponse, Work
from llm_proxy.faults.location import Place


@dataclass(frozen=True, slots=True)
class Overloaded:
    """The refusal of a provider that has too much to do."""

    retry_after: float | None = None
    """ms."""
    should_retry: bool | None = None

    def mechanism(self, _place: Place | None, /) -> Work:
        """The error."""
        return ReplaceResponse(self._replacement_response)

    def _replacement_response(self, context: FaultContext) -> Burst:
        status = context.request.dialect.overloaded_status
        again = (self.retry_after, self.should_retry)
        return refusal_response(context, ErrorSpec(status, "", "", *again))


KIND = FaultKind(
    "overloaded", FaultEffect.REFUSED, "the provider's 529 or 503", Overloaded,
    {
        "retry-after": FaultArgument(
            unit_parsers.parse_milliseconds, "how long the client is told to wait; nothing if "
                                             "left out"
        ),
        "should-retry": FaultArgument(unit_parsers.parse_bool, "the header x-should-retry; none "
                                                               "if left out"),
    },
    example="overloaded",
)  # fmt: skip
