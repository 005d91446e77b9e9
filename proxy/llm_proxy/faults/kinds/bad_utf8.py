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
from llm_proxy.dialects.base import Response
from llm_proxy.faults.fault_record import Effect
from llm_proxy.faults.kind import (
    AT_MESSAGES,
    CannotInject,
    Kind,
    Moment,
    Strike,
    Struck,
    Work,
)
from llm_proxy.faults.location import Place
from llm_proxy.framing.invalid_utf8 import garble
from llm_proxy.turns import Part, Reasoning, Refusal, Text, ToolCall


@dataclass(frozen=True, slots=True)
class BadUtf8:
    """A byte that is no UTF-8."""

    def work(self, _place: Place | None, /) -> Work:
        """In the message behind its place, or in the body."""
        return Strike(_strike, takes=1, resizes=True)


def _strike(moment: Moment) -> Struck:
    garbled = garble(moment.codec, moment.taken[0], frozenset(_said(moment)))
    if garbled is None:
        raise CannotInject("the message has no text")
    return Struck((Send(garbled),))


def _said(moment: Moment) -> Iterator[str]:
    """What the model says in the message."""
    assert moment.head is not None  # noqa: S101 # what was taken has come behind it
    response = Response(moment.head, moment.codec, moment.taken)
    for turn in moment.met.asked.dialect.turns(response):
        yield from filter(None, map(_words, turn.parts))


def _words(part: Part) -> str:
    match part:
        case Text() | Reasoning() | Refusal():
            return part.text
        case ToolCall():
            return part.arguments
        case _:
            return ""


KIND = Kind(
    "bad-utf8", Effect.MALFORMED, "a text holds a byte that is no UTF-8", BadUtf8,
    places=AT_MESSAGES, example="bad-utf8,after=2",
)  # fmt: skip
