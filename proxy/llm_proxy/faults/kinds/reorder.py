"""`reorder`: two events are swapped.

    event 1  event 3  event 2  event 4  …
    ├────────┼────────┼────────┼────────┼──

Both events are sent when the second event was due.
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
        raise FaultNotApplicable("only one event followed the fault's location")
    return taken_in_order(position, (1, 0))


KIND = FaultKind(
    "reorder",
    FaultEffect.ALTERED,
    "two swapped events",
    lambda: edit_messages(_swap_messages, 2),
    allowed_locations=MESSAGE_LOCATIONS,
    allowed_codecs=STREAM_CODECS,
    example="reorder,after=2",
)
