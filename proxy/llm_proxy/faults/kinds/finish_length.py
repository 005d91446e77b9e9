"""`finish-length`: the response ends at the maximum number of output tokens.

    event 1  event 2  finish: length  [DONE]
    ├────────┼────────┼───────────────┼─────┤

The stream ends with the provider's finish reason, such as `length` or `max_tokens`. A non-streaming
response contains only the first half of the original text.
"""

from __future__ import annotations

from llm_proxy.faults.kind import MESSAGE_LOCATIONS, FaultEffect, FaultKind
from llm_proxy.faults.reencoding import truncation_mechanism
from llm_proxy.turns import FinishReason

KIND = FaultKind(
    "finish-length",
    FaultEffect.ALTERED,
    "a response stopped at the token limit",
    lambda: truncation_mechanism(FinishReason.LENGTH),
    allowed_locations=MESSAGE_LOCATIONS,
    example="finish-length,after=4",
)
