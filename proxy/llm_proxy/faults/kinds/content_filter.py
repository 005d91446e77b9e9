"""`content-filter`: the provider's filter ends the response.

    event 1  event 2  finish: content_filter  [DONE]
    ├────────┼────────┼───────────────────────┼─────┤

The messages before it stay; then follows the provider's finish reason (`content_filter`, `SAFETY`,
Anthropic's `refusal`), and the stream ends as usual.  A whole body keeps the first half of its
text.  Clients that ignore the finish reason take the half for the whole.  Usage is estimated: one
token for four characters.  Not applicable where the provider has no such finish reason: Ollama.
"""

from __future__ import annotations

from llm_proxy.faults.kind import MESSAGE_LOCATIONS, FaultEffect, FaultKind
from llm_proxy.faults.reencoding import truncation_mechanism
from llm_proxy.turns import FinishReason

KIND = FaultKind(
    "content-filter",
    FaultEffect.ALTERED,
    "the provider's filter ends the answer",
    lambda: truncation_mechanism(FinishReason.CONTENT_FILTER),
    allowed_locations=MESSAGE_LOCATIONS,
    example="content-filter,after=4",
)
