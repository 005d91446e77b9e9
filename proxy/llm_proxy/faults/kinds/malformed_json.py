"""`malformed-json`: a message, or a whole body, whose JSON stops in the middle.

    data: {"id":"a","choices":[…]}     becomes     data: {"id":"a","ch

Its framing is right: the line ends, the event has its name, lengths and checksums fit.  All other
messages come as they were.  Most clients raise the error of their JSON reader, and no error of
their own; some pass over it.
"""

from __future__ import annotations

from dataclasses import dataclass

from llm_proxy.actions import Send
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.kind import (
    AT_MESSAGES,
    FaultKind,
    InjectedActions,
    OneShot,
    StreamPosition,
    Work,
)
from llm_proxy.faults.location import Place
from llm_proxy.framing.truncated_json import truncate_json


@dataclass(frozen=True, slots=True)
class MalformedJson:
    """Half of a message's JSON."""

    def mechanism(self, _place: Place | None, /) -> Work:
        """The message behind its place, or the body."""
        return OneShot(_inject, taken_count=1, changes_length=True)


def _inject(position: StreamPosition) -> InjectedActions:
    return InjectedActions((Send(truncate_json(position.codec, position.taken_messages[0])),))


KIND = FaultKind(
    "malformed-json", FaultEffect.MALFORMED, "the JSON of a message stops in the "
                                             "middle", MalformedJson,
    allowed_locations=AT_MESSAGES, example="malformed-json,after=2",
)  # fmt: skip
