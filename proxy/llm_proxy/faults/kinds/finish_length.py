"""`finish-length`: the response ends at the maximum number of output tokens.

    event 1  event 2  finish: length  [DONE]
    ├────────┼────────┼───────────────┼─────┤

The messages before it stay; then follows the provider's finish reason (`length`, `max_tokens`,
`MAX_TOKENS`, `response.incomplete`), and the stream ends as usual: within a sentence, or within the
arguments of a tool call.  A whole body keeps the first half of its text.  Clients that ignore the
finish reason take the half for the whole.  Usage is estimated: one token for four characters.
"""

from __future__ import annotations

from llm_proxy.faults.kind import MESSAGE_LOCATIONS, FaultEffect, FaultKind
from llm_proxy.faults.reencoding import truncation_mechanism
from llm_proxy.turns import FinishReason

KIND = FaultKind(
    "finish-length",
    FaultEffect.ALTERED,
    "the answer ends at its longest length",
    lambda: truncation_mechanism(FinishReason.LENGTH),
    allowed_locations=MESSAGE_LOCATIONS,
    example="finish-length,after=4",
)
