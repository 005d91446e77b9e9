"""`finish-length`: the answer is as long as it may be, and ends there.

    event 1  event 2  finish: length  [DONE]
    ├────────┼────────┼───────────────┼─────┤

What was said so far stays; then comes the provider's own word for it (`length`, `max_tokens`,
`MAX_TOKENS`, `response.incomplete`), and the stream ends as it ever does: amid a sentence, or amid
the arguments of a call.  A whole body tells the first half of its text.  Clients that don't look at
the reason take the half for the whole.  Usage is counted anew: a token for four characters.
"""

from __future__ import annotations

from dataclasses import dataclass

from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.kind import AT_MESSAGES, FaultKind, Work
from llm_proxy.faults.location import Place
from llm_proxy.faults.turn_truncation import truncate_turns
from llm_proxy.turns import Finish


@dataclass(frozen=True, slots=True)
class FinishLength:
    """An answer that is cut at its longest length."""

    def mechanism(self, _place: Place | None, /) -> Work:
        """The end, at its place."""
        return truncate_turns(Finish.LENGTH)


KIND = FaultKind(
    "finish-length", FaultEffect.ALTERED, "the answer ends at its longest length", FinishLength,
    allowed_locations=AT_MESSAGES, example="finish-length,after=4",
)  # fmt: skip
