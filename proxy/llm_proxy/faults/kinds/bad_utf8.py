r"""`bad-utf8`: a text that holds a byte which is no UTF-8.

    {"content":"Hello"}     becomes     {"content":"Hello\xff"}

The byte stands in what the model says, where the message says anything, else in the last text of
the message.  The framing is right, checksums too.  Clients raise, or read U+FFFD in its place.  It
has no meaning in a message without a text, such as `[DONE]`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from llm_proxy.actions import Send
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.kind import (
    AT_MESSAGES,
    FaultKind,
    FaultNotApplicable,
    InjectedActions,
    OneShot,
    StreamPosition,
    Work,
)
from llm_proxy.faults.location import Place
from llm_proxy.framing.invalid_utf8 import insert_invalid_utf8
from llm_proxy.turns import Part, Reasoning, Refusal, Text, ToolCall


@dataclass(frozen=True, slots=True)
class BadUtf8:
    """A byte that is no UTF-8."""

    def mechanism(self, _place: Place | None, /) -> Work:
        """In the message behind its place, or in the body."""
        return OneShot(_inject, taken_count=1, changes_length=True)


def _inject(position: StreamPosition) -> InjectedActions:
    garbled = insert_invalid_utf8(
        position.codec, position.taken_messages[0], frozenset(_message_texts(position))
    )
    if garbled is None:
        raise FaultNotApplicable("the message has no text")
    return InjectedActions((Send(garbled),))


def _message_texts(position: StreamPosition) -> Iterator[str]:
    assert position.head is not None  # noqa: S101 # what was taken has come behind it
    response = DialectResponse(position.head, position.codec, position.taken_messages)
    for turn in position.context.request.dialect.decode(response):
        yield from filter(None, map(_part_texts, turn.parts))


def _part_texts(part: Part) -> str:
    match part:
        case Text() | Reasoning() | Refusal():
            return part.text
        case ToolCall():
            return part.arguments
        case _:
            return ""


KIND = FaultKind(
    "bad-utf8", FaultEffect.MALFORMED, "a text holds a byte that is no UTF-8", BadUtf8,
    allowed_locations=AT_MESSAGES, example="bad-utf8,after=2",
)  # fmt: skip
