"""`half-event`: the body ends cleanly in the middle of a message.

    head  event 1  eve  0␍␊␍␊
    ├─────┼────────┼───┤

Half of the next message's bytes go out, wherever that is: within its JSON, or a character.  HTTP is
in order.  Most clients drop such a piece and raise nothing; some try to read it.  It has no meaning
in a whole body, which `truncate` cuts.
"""

from __future__ import annotations

from dataclasses import dataclass

from llm_proxy.actions import Send
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.kind import (
    AT_MESSAGES,
    STREAMS,
    FaultKind,
    InjectedActions,
    OneShot,
    StreamPosition,
    Work,
)
from llm_proxy.faults.location import Place


@dataclass(frozen=True, slots=True)
class HalfEvent:
    """An end within a message."""

    def mechanism(self, _place: Place | None, /) -> Work:
        """The end, amid the message behind its place."""
        return OneShot(_inject, taken_count=1, changes_length=True)


def _inject(position: StreamPosition) -> InjectedActions:
    message = position.taken_messages[0]
    return InjectedActions((Send(message[: max(len(message) // 2, 1)]),), ends_response=True)


KIND = FaultKind(
    "half-event", FaultEffect.TRUNCATED, "a clean end in the middle of a message", HalfEvent,
    allowed_locations=AT_MESSAGES, allowed_bodies=STREAMS, example="half-event,after=2",
)  # fmt: skip
