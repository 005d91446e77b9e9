"""`half-event`: the body ends cleanly in the middle of a message.

    head  event 1  eve  0␍␊␍␊
    ├─────┼────────┼───┤

The first half of the next message's bytes is sent, even if that cuts its JSON or a character.  HTTP
is valid.  Most clients drop such a fragment and raise nothing; some try to parse it.  Not
applicable to a whole body, which `truncate` cuts.
"""

from __future__ import annotations

from dataclasses import dataclass

from llm_proxy.actions import Send
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.kind import (
    MESSAGE_LOCATIONS,
    STREAM_CODECS,
    FaultKind,
    InjectedActions,
    Mechanism,
    OneShot,
    StreamPosition,
)
from llm_proxy.faults.location import StreamLocation


@dataclass(frozen=True, slots=True)
class HalfEvent:
    """Ends the body in the middle of a message."""

    def make_mechanism(self, _location: StreamLocation | None, /) -> Mechanism:
        """Ends the body in the middle of the message after its location."""
        return OneShot(_make_injected_actions, taken_message_count=1, changes_length=True)


def _make_injected_actions(position: StreamPosition) -> InjectedActions:
    message = position.taken_messages[0]
    return InjectedActions((Send(message[: max(len(message) // 2, 1)]),), ends_response=True)


KIND = FaultKind(
    "half-event", FaultEffect.TRUNCATED, "a clean end in the middle of a message", HalfEvent,
    allowed_locations=MESSAGE_LOCATIONS, allowed_codecs=STREAM_CODECS, example="half-event,after=2",
)  # fmt: skip
