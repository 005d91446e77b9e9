"""`reorder`: two messages are swapped.

    event 1  event 3  event 2  event 4  …
    ├────────┼────────┼────────┼────────┼──

Both are sent when the later one was due, and each is valid.  Shows whether a client checks sequence
numbers, indexes and the order of block starts and ends.
"""

from __future__ import annotations

from llm_proxy.actions import Send
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.kind import (
    MESSAGE_LOCATIONS,
    STREAM_CODECS,
    FaultKind,
    FaultNotApplicable,
    InjectedActions,
    OneShot,
    StreamPosition,
)
from llm_proxy.framing.message_edits import rearrange_messages


def _swap_messages(position: StreamPosition) -> InjectedActions:
    if len(position.taken_messages) < 2:  # a swap needs two
        raise FaultNotApplicable("there was but one message behind it")
    try:
        messages = rearrange_messages(position.codec, position.taken_messages, (1, 0))
    except ValueError as error:
        raise FaultNotApplicable(str(error)) from None
    return InjectedActions(tuple(map(Send, messages)))


KIND = FaultKind(
    "reorder",
    FaultEffect.ALTERED,
    "two messages change places",
    lambda: OneShot(_swap_messages, taken_message_count=2, changes_length=True),
    allowed_locations=MESSAGE_LOCATIONS,
    allowed_codecs=STREAM_CODECS,
    example="reorder,after=2",
)
