"""`malformed-json`: the JSON of a message, or of a whole body, stops in the middle.

    data: {"id":"a","choices":[…]}     becomes     data: {"id":"a","ch

Its framing is valid: line ends, event name, lengths and checksums.  All other messages are
unchanged.  Most clients raise the error of their JSON parser, not one of their own; some skip the
message.
"""

from __future__ import annotations

from llm_proxy.faults.kind import MESSAGE_LOCATIONS, FaultEffect, FaultKind, edit_messages
from llm_proxy.framing.message_edits import truncate_json

KIND = FaultKind(
    "malformed-json",
    FaultEffect.MALFORMED,
    "the JSON of a message stops in the middle",
    lambda: edit_messages(
        lambda position: [truncate_json(position.codec, position.taken_messages[0])]
    ),
    allowed_locations=MESSAGE_LOCATIONS,
    example="malformed-json,after=2",
)
