"""`content-filter`: the provider's content filter ends the response.

    event 1  event 2  finish: content_filter  [DONE]
    ├────────┼────────┼───────────────────────┼─────┤

The stream ends with the provider's finish reason, such as `content_filter` or `SAFETY`. A
non-streaming response contains only the first half of the original text. Ollama is not supported.
"""

from __future__ import annotations

from llm_proxy.faults.kind import MESSAGE_LOCATIONS, FaultEffect, FaultKind
from llm_proxy.faults.reencoding import truncation_mechanism
from llm_proxy.turns import FinishReason

KIND = FaultKind(
    "content-filter",
    FaultEffect.ALTERED,
    "a response stopped by the content filter",
    lambda: truncation_mechanism(FinishReason.CONTENT_FILTER),
    allowed_locations=MESSAGE_LOCATIONS,
    example="content-filter,after=4",
)
