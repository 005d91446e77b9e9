"""`drop`: events are omitted.

event 1  (event 2)  event 3  …
├────────┼──────────┼────────┼──
"""

from __future__ import annotations

from llm_proxy import unit_parsers
from llm_proxy.faults.kind import (
    MESSAGE_LOCATIONS,
    STREAM_CODECS,
    FaultArgument,
    FaultEffect,
    FaultKind,
    edit_messages,
)

KIND = FaultKind(
    "drop",
    FaultEffect.ALTERED,
    "missing events",
    lambda count: edit_messages(lambda _: (), count),
    {"count": FaultArgument(unit_parsers.parse_positive_count, "number of events", "1")},
    allowed_locations=MESSAGE_LOCATIONS,
    allowed_codecs=STREAM_CODECS,
    example="drop,after=2",
)
