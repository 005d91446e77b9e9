"""`malformed-json`: the JSON of one event, or of a non-streaming response, is truncated.

    data: {"id":"a","choices":[…]}     becomes     data: {"id":"a","ch

The event framing and all other events are unchanged.
"""

from __future__ import annotations

from llm_proxy.faults.kind import MESSAGE_LOCATIONS, FaultEffect, FaultKind, edit_messages
from llm_proxy.framing.message_edits import truncate_json

KIND = FaultKind(
    "malformed-json",
    FaultEffect.MALFORMED,
    "truncated JSON in an event",
    lambda: edit_messages(
        lambda position: [truncate_json(position.codec, position.taken_messages[0])]
    ),
    allowed_locations=MESSAGE_LOCATIONS,
    example="malformed-json,after=2",
)
