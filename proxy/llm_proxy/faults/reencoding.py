"""Re-encodes a response with changed turns in its own dialect.

told anew  the whole answer is another one; it takes its time as the real one did
ending     what was said so far stays, and the answer ends in another way

    told so far   event 1  event 2  event 3  event 4  [DONE]
    an ending                       finish   [DONE]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from llm_proxy.actions import Action, Burst, Send, Wait
from llm_proxy.dialects import json_api, response_encoding
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.errors import NotRepresentable
from llm_proxy.faults import message_contents
from llm_proxy.faults.kind import FaultNotApplicable, StreamPosition
from llm_proxy.framing import sse
from llm_proxy.turns import Turn

_NUMBER: Final = "sequence_number"
"""What a stream that counts its messages calls the number of one."""
_CREATED: Final = re.compile(rb'"created(?:_at)?"\s*:\s*([0-9]{9,11})\b')
"""The time that an answer names, in s since 1970."""
_FIRST: Final = 3
"""Messages that are searched for it: the first of them name it where any does."""
_INDEX: Final = "index"
"""How the names of fields end that number the parts of an answer."""


def convert_for_response(position: StreamPosition, turn: Turn) -> Turn:
    """The turn as this answer's dialect can tell it.

    Raises `FaultNotApplicable` for an answer that is an error, and for words that the dialect
    lacks.
    """
    decoded_request = position.context.request
    if not json_api.succeeded(position.require_head()):
        raise FaultNotApplicable("the answer is an error already")
    try:
        return decoded_request.dialect.convert(
            decoded_request.request, (turn,), decoded_request.context
        ).turns[0]
    except NotRepresentable as why:
        raise FaultNotApplicable(str(why)) from None


def decode_messages(position: StreamPosition, messages: Sequence[bytes]) -> tuple[Turn, ...]:
    """What these messages of the answer say."""
    assert position.head is not None  # noqa: S101 # it is checked before
    return position.context.request.dialect.decode(
        DialectResponse(position.head, position.codec, messages)
    )


def decode_whole(position: StreamPosition) -> tuple[Turn, ...]:
    """What the answer says that was taken whole.

    Raises `FaultNotApplicable` where it says nothing.
    """
    turns = decode_messages(position, (*position.sent_before, *position.taken_messages))
    if not turns:
        raise FaultNotApplicable("the answer says nothing that can be read")
    if any(turn.failure for turn in turns):
        raise FaultNotApplicable("the answer has failed already")
    return turns


def encode_replacement(position: StreamPosition, turns: Sequence[Turn]) -> Burst:
    """The answer that says this in place of what was taken.

    Message k goes out when the k-th that was taken was due, and what remains with the last.
    """
    actions: list[Action] = []
    due = -1.0
    for number, message in enumerate(_encode_turns(position, turns).messages):
        at = (
            position.due_times[min(number, len(position.due_times) - 1)]
            if position.due_times
            else due
        )
        if at > due:
            actions.append(Wait(at))
            due = at
        actions.append(Send(message))
    return tuple(actions)


def encode_ending(position: StreamPosition, ends: Callable[[Turn], Turn]) -> Burst:
    """What remains to be told of a stream that ends in another way.

    `ends` gives each turn, as it was told so far, its end.  Raises `FaultNotApplicable` where the
    answer has told why it ends, or its dialect has no words for that end.
    """
    if position.partial_message:
        raise FaultNotApplicable("a message was under way")
    so_far = decode_messages(position, position.sent_before) or _empty_stream_turns(position)
    if any(turn.finish or turn.failure for turn in so_far):
        raise FaultNotApplicable("the answer had told why it ends")
    turns = tuple(map(ends, _with_response_identity(position, so_far)))
    spoken = _encode_turns(position, turns)
    if not position.sent_before:
        return tuple(map(Send, spoken.messages))
    tail = _final_messages(position, spoken)
    if tail is None:  # the last words and the end are one message
        tail = _final_messages(
            position, _encode_turns(position, [replace(turn, parts=()) for turn in turns])
        )
    return tuple(map(Send, _renumber_messages(position, tail or ())))


def _with_response_identity(position: StreamPosition, so_far: Sequence[Turn]) -> list[Turn]:
    """The turns with the id and the model that the next messages tell, if those before don't."""
    later = next(iter(decode_messages(position, position.taken_messages)), Turn(()))
    return [
        replace(turn, id=turn.id or later.id, model=turn.model or later.model) for turn in so_far
    ]


def _empty_stream_turns(position: StreamPosition) -> tuple[Turn, ...]:
    decoded_request = position.context.request
    if decoded_request.dialect.decode_request(decoded_request.request) is None:
        raise FaultNotApplicable("the answer says nothing that can be read")
    return (Turn(()),)


def _context(position: StreamPosition) -> EncodeContext:
    """How the rest is told: with the time that the answer has named by now."""
    delivery = position.context.request.context
    for message in (*position.sent_before[:_FIRST], *position.taken_messages[:_FIRST]):
        if (found := _CREATED.search(message)) is not None:
            return replace(delivery, created=int(found[1]))
    return delivery


def _encode_turns(position: StreamPosition, turns: Sequence[Turn]) -> DialectResponse:
    decoded_request = position.context.request
    try:
        response = decoded_request.dialect.encode(
            decoded_request.request, turns, _context(position)
        )
    except NotRepresentable as why:
        raise FaultNotApplicable(str(why)) from None
    if response.codec != position.codec:
        raise FaultNotApplicable("the answer does not come in the form that was asked for")
    return response


def _final_messages(position: StreamPosition, spoken: DialectResponse) -> list[bytes] | None:
    """The end of a telling: what comes behind its last words; an error alone, where it fails.

    What closes a part that is closed already is left out.  None where nothing tells the end.
    """
    dialect, codec, messages = position.context.request.dialect, position.codec, spoken.messages
    silent = [at for at, content in enumerate(messages) if not dialect.output_chars(codec, content)]
    alone = {
        at: dialect.decode(DialectResponse(spoken.head, codec, (messages[at],))) for at in silent
    }
    end = next((at for at in silent if any(map(_is_end_turn, alone[at]))), None)
    if end is None:
        return None
    begin = end
    says = set(range(len(messages))) - set(silent)
    if says and not any(turn.failure for turn in alone[end]):
        begin = min(end, max(says) + 1)
    closes = {at: _closing_key(codec, messages[at]) for at in silent if at >= begin}
    before = position.sent_before if any(closes.values()) else ()
    names = {_closing_key(codec, data) for data in before if not dialect.output_chars(codec, data)}
    return [messages[at] for at, it in closes.items() if not it or it not in names]


def _is_end_turn(turn: Turn) -> bool:
    return turn.finish is not None or turn.failure is not None


def _closing_key(codec: str, message: bytes) -> tuple[object, ...]:
    """What a message says of which part of the answer; nothing where it is of none."""
    fields = message_contents.message_object(codec, message).items()
    parts = [(name, value) for name, value in fields if name.lower().endswith(_INDEX)]
    return (
        (message_contents.message_types(codec, message), *map(str, sorted(parts))) if parts else ()
    )


def _renumber_messages(position: StreamPosition, messages: Sequence[bytes]) -> list[bytes]:
    """The messages as they stand behind those that have gone out: numbered on, in one array."""
    if position.codec == "json-array":
        return [b"," + it.lstrip(b"[, \r\n") if n == 0 else it for n, it in enumerate(messages)]
    if position.codec != "sse":
        return list(messages)
    numbers = (
        message_contents.message_object("sse", data).get(_NUMBER)
        for data in reversed(position.sent_before)
    )
    last = next((value for value in numbers if isinstance(value, int)), None)
    if last is None:
        return list(messages)
    return [_renumber_event(content, number) for number, content in enumerate(messages, last + 1)]


def _renumber_event(event: bytes, number: int) -> bytes:
    fields = dict(message_contents.message_object("sse", event))
    if _NUMBER not in fields:
        return event
    return sse.encode_event(
        response_encoding.json_line({**fields, _NUMBER: number}),
        sse.parse_event(event).encode_event,
    )
