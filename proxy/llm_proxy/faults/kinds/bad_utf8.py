r"""`bad-utf8`: a text contains a byte that is invalid in UTF-8.

    {"content":"Hello"}     becomes     {"content":"Hello\xff"}

The byte is inserted into the model's output, where the message contains any, else into the last
string of the message.  Framing and checksums stay valid.  Clients raise, or read U+FFFD in its
place.  Not applicable to a message without a string, such as `[DONE]`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from llm_proxy.actions import Send
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.kind import (
    MESSAGE_LOCATIONS,
    FaultKind,
    FaultNotApplicable,
    InjectedActions,
    Mechanism,
    OneShot,
    StreamPosition,
)
from llm_proxy.faults.location import StreamLocation
from llm_proxy.framing.invalid_utf8 import insert_invalid_utf8
from llm_proxy.turns import Part, Reasoning, Refusal, Text, ToolCall


@dataclass(frozen=True, slots=True)
class BadUtf8:
    """Inserts a byte that is invalid in UTF-8."""

    def make_mechanism(self, _location: StreamLocation | None, /) -> Mechanism:
        """Changes the message after its location, or a whole body."""
        return OneShot(_make_injected_actions, taken_message_count=1, changes_length=True)


def _make_injected_actions(position: StreamPosition) -> InjectedActions:
    corrupted = insert_invalid_utf8(
        position.codec, position.taken_messages[0], frozenset(_taken_message_texts(position))
    )
    if corrupted is None:
        raise FaultNotApplicable("the message has no text")
    return InjectedActions((Send(corrupted),))


def _taken_message_texts(position: StreamPosition) -> Iterator[str]:
    assert position.head is not None  # noqa: S101 # messages are taken only after the head
    response = DialectResponse(position.head, position.codec, position.taken_messages)
    for turn in position.context.decoded_request.dialect.decode_response(response):
        yield from filter(None, map(_part_text, turn.parts))


def _part_text(part: Part) -> str:
    match part:
        case Text() | Reasoning() | Refusal():
            return part.text
        case ToolCall():
            return part.arguments
        case _:
            return ""


KIND = FaultKind(
    "bad-utf8", FaultEffect.MALFORMED, "a text holds a byte that is no UTF-8", BadUtf8,
    allowed_locations=MESSAGE_LOCATIONS, example="bad-utf8,after=2",
)  # fmt: skip
