r"""`bad-utf8`: the text contains a byte that is invalid in UTF-8.

    {"content":"Hello"}     becomes     {"content":"Hello\xff"}

The byte is inserted into the event's model output. Without model output, the byte is inserted into
the event's last string.
"""

from __future__ import annotations

from llm_proxy.faults import reencoding
from llm_proxy.faults.kind import (
    MESSAGE_LOCATIONS,
    FaultEffect,
    FaultKind,
    FaultNotApplicable,
    StreamPosition,
    edit_messages,
)
from llm_proxy.framing.message_edits import insert_invalid_utf8
from llm_proxy.turns import Part, Reasoning, Refusal, Text, ToolCall


def _insert_invalid_byte(position: StreamPosition) -> list[bytes]:
    turns = reencoding.decode_turns(position, position.taken_messages)
    texts = {_part_text(part) for turn in turns for part in turn.parts} - {""}
    corrupted = insert_invalid_utf8(position.codec, position.taken_messages[0], frozenset(texts))
    if corrupted is None:
        raise FaultNotApplicable("the event contains no text")
    return [corrupted]


def _part_text(part: Part) -> str:
    match part:
        case Text() | Reasoning() | Refusal():
            return part.text
        case ToolCall():
            return part.arguments
        case _:
            return ""


KIND = FaultKind(
    "bad-utf8",
    FaultEffect.MALFORMED,
    "text with an invalid UTF-8 byte",
    lambda: edit_messages(_insert_invalid_byte),
    allowed_locations=MESSAGE_LOCATIONS,
    example="bad-utf8,after=2",
)
