"""`reorder`: two messages change places.

    event 1  event 3  event 2  event 4  …
    ├────────┼────────┼────────┼────────┼──

Both come when the later one was due, and each can be read.  What a client makes of it tells whether
it looks at numbers, indexes and the order of openings and ends.
"""

from __future__ import annotations

from dataclasses import dataclass

from llm_proxy.actions import Send
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.kind import (
    AT_MESSAGES,
    STREAMS,
    FaultKind,
    FaultNotApplicable,
    InjectedActions,
    OneShot,
    StreamPosition,
    Work,
)
from llm_proxy.faults.location import Place
from llm_proxy.framing.reordering import rearrange_messages


@dataclass(frozen=True, slots=True)
class Reorder:
    """The next two messages, the other way round."""

    def mechanism(self, _place: Place | None, /) -> Work:
        """The change, behind its place."""
        return OneShot(_inject, taken_count=2, changes_length=True)


def _inject(position: StreamPosition) -> InjectedActions:
    if len(position.taken_messages) < 2:  # two are what changes places
        raise FaultNotApplicable("there was but one message behind it")
    try:
        items = rearrange_messages(position.codec, position.taken_messages, (1, 0))
    except ValueError as why:
        raise FaultNotApplicable(str(why)) from None
    return InjectedActions(tuple(map(Send, items)))


KIND = FaultKind(
    "reorder", FaultEffect.ALTERED, "two messages change places", Reorder,
    allowed_locations=AT_MESSAGES, allowed_bodies=STREAMS, example="reorder,after=2",
)  # fmt: skip
