"""`reorder`: two messages are swapped.

    event 1  event 3  event 2  event 4  …
    ├────────┼────────┼────────┼────────┼──

Both are sent when the later one was due, and each is valid.  Shows whether a client checks sequence
numbers, indexes and the order of block starts and ends.
"""

from __future__ import annotations

from collections.abc import Sequence

from llm_proxy.faults.kind import (
    MESSAGE_LOCATIONS,
    STREAM_CODECS,
    FaultEffect,
    FaultKind,
    FaultNotApplicable,
    StreamPosition,
    edit_messages,
)
from llm_proxy.framing.message_edits import rearrange_messages


def taken_in_order(position: StreamPosition, order: Sequence[int]) -> list[bytes]:
    """The messages that were taken, in this order of their indexes, which may repeat."""
    try:
        return rearrange_messages(position.codec, position.taken_messages, order)
    except ValueError as error:
        raise FaultNotApplicable(str(error)) from None


def _swap_messages(position: StreamPosition) -> list[bytes]:
    if len(position.taken_messages) < 2:  # a swap needs two
        raise FaultNotApplicable("there was but one message behind it")
    return taken_in_order(position, (1, 0))


KIND = FaultKind(
    "reorder",
    FaultEffect.ALTERED,
    "two messages change places",
    lambda: edit_messages(_swap_messages, 2),
    allowed_locations=MESSAGE_LOCATIONS,
    allowed_codecs=STREAM_CODECS,
    example="reorder,after=2",
)
