"""`half-event`: the body ends cleanly in the middle of an event.

    head  event 1  eve  0␍␊␍␊
    ├─────┼────────┼───┤

Only half of the next event's bytes are sent. A multi-byte character can be cut.
"""

from __future__ import annotations

from llm_proxy.actions import Send
from llm_proxy.faults.kind import (
    MESSAGE_LOCATIONS,
    STREAM_CODECS,
    FaultEffect,
    FaultKind,
    InjectedActions,
    OneShot,
    StreamPosition,
)


def _end_within_message(position: StreamPosition) -> InjectedActions:
    message = position.taken_messages[0]
    return InjectedActions((Send(message[: max(len(message) // 2, 1)]),), ends_response=True)


KIND = FaultKind(
    "half-event",
    FaultEffect.TRUNCATED,
    "a body that ends in the middle of an event",
    lambda: OneShot(_end_within_message, taken_message_count=1, changes_length=True),
    allowed_locations=MESSAGE_LOCATIONS,
    allowed_codecs=STREAM_CODECS,
    example="half-event,after=2",
)
