"""`content-filter`: the provider's filter ends the answer.

    event 1  event 2  finish: content_filter  [DONE]
    ├────────┼────────┼───────────────────────┼─────┤

What was said so far stays; then comes the provider's own word for it (`content_filter`, `SAFETY`,
Anthropic's `refusal`), and the stream ends as it ever does.  A whole body tells the first half of
its text.  Clients that don't look at the reason take the half for the whole.  Usage is counted
anew: a token for four characters.  It has no meaning where the provider has no such word: Ollama.
"""

from __future__ import annotations

from dataclasses import dataclass

from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.kind import AT_MESSAGES, FaultKind, Work
from llm_proxy.faults.location import Place
from llm_proxy.faults.turn_truncation import truncate_turns
from llm_proxy.turns import Finish


@dataclass(frozen=True, slots=True)
class ContentFilter:
    """An answer that the filter ends."""

    def mechanism(self, _place: Place | None, /) -> Work:
        """The end, at its place."""
        return truncate_turns(Finish.CONTENT_FILTER)


KIND = FaultKind(
    "content-filter", FaultEffect.ALTERED, "the provider's filter ends the answer", ContentFilter,
    allowed_locations=AT_MESSAGES, example="content-filter,after=4",
)  # fmt: skip
