"""Re-encodes a response with changed turns in its own dialect.

replacement  the whole response is encoded anew, with the timing of the real one
ending       the messages that were sent stay, and the response ends in another way

    real response   event 1  event 2  event 3  event 4  [DONE]
    another ending                    finish   [DONE]
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
from llm_proxy.faults import framed_message_contents
from llm_proxy.faults.kind import FaultNotApplicable, StreamPosition
from llm_proxy.framing import sse
from llm_proxy.turns import Turn

_SEQUENCE_NUMBER_FIELD: Final = "sequence_number"
"""The field that numbers the messages of a stream (OpenAI's Responses API)."""
_CREATED_PATTERN: Final = re.compile(rb'"created(?:_at)?"\s*:\s*([0-9]{9,11})\b')
"""The creation time in a response, in s since 1970."""
_MAX_SEARCHED_MESSAGES: Final = 3
"""Messages that are searched for the creation time: the first ones contain it where any does."""
_INDEX_SUFFIX: Final = "index"
"""The suffix of fields that number the parts of a response, such as `output_index`."""


def to_representable_turn(position: StreamPosition, turn: Turn) -> Turn:
    """The turn, reduced to what the dialect of this response can represent.

    Raises `FaultNotApplicable` for an error response, and for a turn that the dialect cannot
    represent.
    """
    decoded_request = position.context.decoded_request
    if not json_api.succeeded(position.require_head()):
        raise FaultNotApplicable("the answer is an error already")
    try:
        return decoded_request.dialect.representable_turns(
            decoded_request.request, (turn,), decoded_request.context
        ).turns[0]
    except NotRepresentable as error:
        raise FaultNotApplicable(str(error)) from None


def decode_response_turns(position: StreamPosition, messages: Sequence[bytes]) -> tuple[Turn, ...]:
    """The turns that the dialect decodes from these messages of the response."""
    assert position.head is not None  # noqa: S101 # it is checked before
    return position.context.decoded_request.dialect.decode_response(
        DialectResponse(position.head, position.codec, messages)
    )


def decode_whole_response(position: StreamPosition) -> tuple[Turn, ...]:
    """The turns of a response whose messages were all taken.

    Raises `FaultNotApplicable` where it contains no turn, or a failed one.
    """
    turns = decode_response_turns(position, (*position.sent_messages, *position.taken_messages))
    if not turns:
        raise FaultNotApplicable("the answer says nothing that can be read")
    if any(turn.failure for turn in turns):
        raise FaultNotApplicable("the answer has failed already")
    return turns


def encode_replacement_actions(position: StreamPosition, turns: Sequence[Turn]) -> Burst:
    """The actions that send these turns in place of the messages that were taken.

    Message k is sent when the k-th taken message was due; further ones when the last was due.
    """
    actions: list[Action] = []
    due_ms = -1.0
    for index, message in enumerate(_encode_turns(position, turns).framed_messages):
        next_due_ms = (
            position.taken_due_times_ms[min(index, len(position.taken_due_times_ms) - 1)]
            if position.taken_due_times_ms
            else due_ms
        )
        if next_due_ms > due_ms:
            actions.append(Wait(next_due_ms))
            due_ms = next_due_ms
        actions.append(Send(message))
    return tuple(actions)


def encode_ending_actions(position: StreamPosition, with_ending: Callable[[Turn], Turn]) -> Burst:
    """The remaining messages of a stream that ends in another way.

    `with_ending` adds the ending to each turn, given as far as it was sent.  Raises
    `FaultNotApplicable` where the finish reason was sent already, where a message was sent in
    part, or where the dialect cannot represent that ending.
    """
    if position.sent_message_prefix:
        raise FaultNotApplicable("a message was under way")
    so_far = decode_response_turns(position, position.sent_messages) or _empty_stream_turns(
        position
    )
    if any(turn.finish or turn.failure for turn in so_far):
        raise FaultNotApplicable("the answer had told why it ends")
    turns = tuple(map(with_ending, _with_id_and_model(position, so_far)))
    response = _encode_turns(position, turns)
    if not position.sent_messages:
        return tuple(map(Send, response.framed_messages))
    ending_messages = _ending_messages(position, response)
    if ending_messages is None:  # the last text and the end share one message
        ending_messages = _ending_messages(
            position, _encode_turns(position, [replace(turn, parts=()) for turn in turns])
        )
    return tuple(map(Send, _renumber_messages(position, ending_messages or ())))


def _with_id_and_model(position: StreamPosition, so_far: Sequence[Turn]) -> list[Turn]:
    """The turns with id and model, from the next messages where those before lack them."""
    next_turn = next(iter(decode_response_turns(position, position.taken_messages)), Turn(()))
    return [
        replace(turn, id=turn.id or next_turn.id, model=turn.model or next_turn.model)
        for turn in so_far
    ]


def _empty_stream_turns(position: StreamPosition) -> tuple[Turn, ...]:
    decoded_request = position.context.decoded_request
    if decoded_request.dialect.decode_request(decoded_request.request) is None:
        raise FaultNotApplicable("the answer says nothing that can be read")
    return (Turn(()),)


def _context_for_encoding(position: StreamPosition) -> EncodeContext:
    """The context to encode the rest with: with the creation time that the response declared."""
    encode_context = position.context.decoded_request.context
    for message in (
        *position.sent_messages[:_MAX_SEARCHED_MESSAGES],
        *position.taken_messages[:_MAX_SEARCHED_MESSAGES],
    ):
        if (created_match := _CREATED_PATTERN.search(message)) is not None:
            return replace(encode_context, created_unix_s=int(created_match[1]))
    return encode_context


def _encode_turns(position: StreamPosition, turns: Sequence[Turn]) -> DialectResponse:
    decoded_request = position.context.decoded_request
    try:
        response = decoded_request.dialect.encode_response(
            decoded_request.request, turns, _context_for_encoding(position)
        )
    except NotRepresentable as error:
        raise FaultNotApplicable(str(error)) from None
    if response.codec_name != position.codec:
        raise FaultNotApplicable("the answer does not come in the form that was asked for")
    return response


def _ending_messages(position: StreamPosition, response: DialectResponse) -> list[bytes] | None:
    """The messages after the last output of an encoded response; of a failure the error alone.

    Messages that close a part which is closed already are left out.  None where no message
    contains the end.
    """
    dialect, codec, messages = (
        position.context.decoded_request.dialect,
        position.codec,
        response.framed_messages,
    )
    indexes_without_output = [
        at for at, content in enumerate(messages) if not dialect.output_chars(codec, content)
    ]
    turns_by_index = {
        at: dialect.decode_response(DialectResponse(response.head, codec, (messages[at],)))
        for at in indexes_without_output
    }
    end_index = next(
        (at for at in indexes_without_output if any(map(_is_ended, turns_by_index[at]))), None
    )
    if end_index is None:
        return None
    begin_index = end_index
    output_indexes = set(range(len(messages))) - set(indexes_without_output)
    if output_indexes and not any(turn.failure for turn in turns_by_index[end_index]):
        begin_index = min(end_index, max(output_indexes) + 1)
    closing_keys = {
        at: _message_part_key(codec, messages[at])
        for at in indexes_without_output
        if at >= begin_index
    }
    sent_messages = position.sent_messages if any(closing_keys.values()) else ()
    sent_closing_keys = {
        _message_part_key(codec, data)
        for data in sent_messages
        if not dialect.output_chars(codec, data)
    }
    return [
        messages[at]
        for at, closing_key in closing_keys.items()
        if not closing_key or closing_key not in sent_closing_keys
    ]


def _is_ended(turn: Turn) -> bool:
    return turn.finish is not None or turn.failure is not None


def _message_part_key(codec: str, message: bytes) -> tuple[object, ...]:
    """Identifies a message by its types and the part it belongs to; empty without a part."""
    fields = framed_message_contents.message_json_fields(codec, message).items()
    index_fields = [(name, value) for name, value in fields if name.lower().endswith(_INDEX_SUFFIX)]
    return (
        (
            framed_message_contents.declared_event_types(codec, message),
            *map(str, sorted(index_fields)),
        )
        if index_fields
        else ()
    )


def _renumber_messages(position: StreamPosition, messages: Sequence[bytes]) -> list[bytes]:
    """The messages, adapted to follow those that were sent: sequence numbers, one JSON array."""
    if position.codec == "json-array":
        return [
            b"," + message.lstrip(b"[, \r\n") if n == 0 else message
            for n, message in enumerate(messages)
        ]
    if position.codec != "sse":
        return list(messages)
    sent_sequence_numbers = (
        framed_message_contents.message_json_fields("sse", data).get(_SEQUENCE_NUMBER_FIELD)
        for data in reversed(position.sent_messages)
    )
    last_number = next((value for value in sent_sequence_numbers if isinstance(value, int)), None)
    if last_number is None:
        return list(messages)
    return [
        _renumber_event(content, number) for number, content in enumerate(messages, last_number + 1)
    ]


def _renumber_event(event: bytes, number: int) -> bytes:
    fields = dict(framed_message_contents.message_json_fields("sse", event))
    if _SEQUENCE_NUMBER_FIELD not in fields:
        return event
    return sse.encode_event(
        response_encoding.single_line_json({**fields, _SEQUENCE_NUMBER_FIELD: number}),
        sse.parse_event(event).event_type,
    )
