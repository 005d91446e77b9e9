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
from llm_proxy.faults.error_responses import Refusal, refused
from llm_proxy.faults.fault_record import Effect
from llm_proxy.faults.kind import Argument, Instead, Kind, Met, Work
from llm_proxy.faults.location import Place


@dataclass(frozen=True, slots=True)
class Overloaded:
    """The refusal of a provider that has too much to do."""

    retry_after: float | None = None
    """ms."""
    should_retry: bool | None = None

    def work(self, _place: Place | None, /) -> Work:
        """The error."""
        return Instead(self._answer)

    def _answer(self, met: Met) -> Burst:
        status = met.asked.dialect.overloaded
        again = (self.retry_after, self.should_retry)
        return refused(met, Refusal(status, "", "", *again))


KIND = Kind(
    "overloaded", Effect.REFUSED, "the provider's 529 or 503", Overloaded,
    {
        "retry-after": Argument(
            unit_parsers.milliseconds, "how long the client is told to wait; nothing if left out"
        ),
        "should-retry": Argument(unit_parsers.truth, "the header x-should-retry; none if left out"),
    },
    example="overloaded",
)  # fmt: skip
