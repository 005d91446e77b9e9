"""Re-encodes a response with changed turns in its own dialect.

replacement  the whole response is encoded anew, with the timing of the real one
ending       the messages that were sent stay, and the response ends in another way
truncation   one of these, with a given finish reason

    real response   event 1  event 2  event 3  event 4  [DONE]
    another ending                    finish   [DONE]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

from llm_proxy.actions import Action, Send, Wait
from llm_proxy.dialects import estimates_and_fakes, json_api, response_encoding
from llm_proxy.dialects.base import DecodedRequest, DialectResponse
from llm_proxy.errors import NotRepresentable
from llm_proxy.faults import framed_message_contents
from llm_proxy.faults.kind import FaultNotApplicable, InjectedActions, OneShot, StreamPosition
from llm_proxy.framing import sse
from llm_proxy.turns import FinishReason, Part, Reasoning, Text, Turn, Usage

_SEQUENCE_NUMBER_FIELD: Final = "sequence_number"
"""The field that numbers the messages of a stream (OpenAI's Responses API)."""
_CREATED_PATTERN: Final = re.compile(rb'"created(?:_at)?"\s*:\s*([0-9]{9,11})\b')
"""The creation time in a response, in s since 1970."""
_MAX_SEARCHED_MESSAGES: Final = 3
"""Messages that are searched for the creation time: the first ones contain it where any does."""
_INDEX_SUFFIX: Final = "index"
"""The suffix of fields that number the parts of a response, such as `output_index`."""
_NORMAL_FINISHES: Final = (FinishReason.STOP, FinishReason.STOP_SEQUENCE, FinishReason.TOOL_CALLS)
"""The finish reasons of complete responses."""


def to_representable_turn(position: StreamPosition, turn: Turn) -> Turn:
    """The turn, reduced to what the dialect of this response can represent.

    Raises `FaultNotApplicable` for an error response, and for a turn that the dialect cannot
    represent.
    """
    decoded_request = position.context.decoded_request
    if not json_api.succeeded(position.require_head()):
        raise FaultNotApplicable("the response already has an error status")
    try:
        return decoded_request.dialect.representable_turns(
            decoded_request.request, (turn,), decoded_request.context
        ).turns[0]
    except NotRepresentable as error:
        raise FaultNotApplicable(str(error)) from None


def decode_turns(position: StreamPosition, messages: Sequence[bytes]) -> tuple[Turn, ...]:
    """The turns that the dialect decodes from these messages of the response."""
    return position.context.decoded_request.dialect.decode_response(
        DialectResponse(position.require_head(), position.codec, messages)
    )


def decode_whole_response(position: StreamPosition) -> tuple[Turn, ...]:
    """The turns of a response whose messages were all taken.

    Raises `FaultNotApplicable` where it contains no turn, or a failed one.
    """
    turns = decode_turns(position, (*position.sent_messages, *position.taken_messages))
    if not turns:
        raise FaultNotApplicable("no model output could be decoded from the response")
    if any(turn.failure for turn in turns):
        raise FaultNotApplicable("the response already contains an error")
    return turns


def inject_replacement(position: StreamPosition, turns: Sequence[Turn]) -> InjectedActions:
    """These turns in place of the messages that were taken, and the end of the response.

    Message k is sent when the k-th taken message was due; further ones when the last was due.
    """
    actions: list[Action] = []
    due_ms, due_times_ms = -1.0, position.taken_due_times_ms
    for index, message in enumerate(_encode_turns(position, turns).framed_messages):
        next_due_ms = due_times_ms[min(index, len(due_times_ms) - 1)]
        if next_due_ms > due_ms:
            actions.append(Wait(next_due_ms))
            due_ms = next_due_ms
        actions.append(Send(message))
    return InjectedActions(tuple(actions), ends_response=True)


def inject_ending(position: StreamPosition, with_ending: Callable[[Turn], Turn]) -> InjectedActions:
    """The remaining messages of a stream that ends in another way.

    `with_ending` adds the ending to each turn, given as far as it was sent.  Raises
    `FaultNotApplicable` where the finish reason was sent already, where a message was sent in
    part, or where the dialect cannot represent that ending.
    """
    decoded_request = position.context.decoded_request
    if position.sent_message_prefix:
        raise FaultNotApplicable("the fault's location is in the middle of an event")
    so_far = decode_turns(position, position.sent_messages)
    if not so_far:
        if decoded_request.dialect.decode_request(decoded_request.request) is None:
            raise FaultNotApplicable("no model output could be decoded from the response")
        so_far = (Turn(()),)
    if any(turn.finish or turn.failure for turn in so_far):
        raise FaultNotApplicable("the finish reason had already been sent")
    # Where the messages before lack id and model, the next ones may have them.
    next_turn = next(iter(decode_turns(position, position.taken_messages)), Turn(()))
    turns = [
        with_ending(replace(turn, id=turn.id or next_turn.id, model=turn.model or next_turn.model))
        for turn in so_far
    ]
    response = _encode_turns(position, turns)
    messages = response.framed_messages
    if position.sent_messages:
        ending = _ending_messages(position, response)
        if ending is None:  # the last text and the end share one message
            response = _encode_turns(position, [replace(turn, parts=()) for turn in turns])
            ending = _ending_messages(position, response)
        messages = _renumber_messages(position, ending or ())
    return InjectedActions(tuple(map(Send, messages)), ends_response=True)


def _encode_turns(position: StreamPosition, turns: Sequence[Turn]) -> DialectResponse:
    decoded_request = position.context.decoded_request
    encode_context = decoded_request.context
    for message in (
        *position.sent_messages[:_MAX_SEARCHED_MESSAGES],
        *position.taken_messages[:_MAX_SEARCHED_MESSAGES],
    ):
        if (created_match := _CREATED_PATTERN.search(message)) is not None:
            encode_context = replace(encode_context, created_unix_s=int(created_match[1]))
            break
    try:
        response = decoded_request.dialect.encode_response(
            decoded_request.request, turns, encode_context
        )
    except NotRepresentable as error:
        raise FaultNotApplicable(str(error)) from None
    if response.codec_name != position.codec:
        raise FaultNotApplicable("the response is not in the format that the request asks for")
    return response


def _ending_messages(position: StreamPosition, response: DialectResponse) -> list[bytes] | None:
    """The messages after the last output of an encoded response; of a failure the error alone.

    Messages that close a part which is closed already are left out.  None where no message
    contains the end.
    """
    dialect, codec = position.context.decoded_request.dialect, position.codec
    messages = response.framed_messages

    def has_output(message: bytes) -> bool:
        return dialect.output_chars(codec, message) > 0

    output_indexes = [index for index, message in enumerate(messages) if has_output(message)]
    for index, message in enumerate(messages):
        if index in output_indexes:
            continue
        turns = dialect.decode_response(DialectResponse(response.head, codec, (message,)))
        if any(turn.finish is not None or turn.failure is not None for turn in turns):
            break
    else:
        return None
    begin_index = index
    if output_indexes and not any(turn.failure for turn in turns):
        begin_index = min(index, output_indexes[-1] + 1)
    ending = [message for message in messages[begin_index:] if not has_output(message)]
    keys = [_message_part_key(codec, message) for message in ending]
    sent_keys = {
        _message_part_key(codec, message)
        for message in (position.sent_messages if any(keys) else ())
        if not has_output(message)
    }
    return [
        message
        for message, key in zip(ending, keys, strict=True)
        if not key or key not in sent_keys
    ]


def _message_part_key(codec: str, message: bytes) -> tuple[object, ...]:
    """Identifies a message by its types and the part it belongs to; empty without a part."""
    fields = framed_message_contents.message_json_fields(codec, message)
    index_names = sorted(name for name in fields if name.lower().endswith(_INDEX_SUFFIX))
    types = framed_message_contents.declared_event_types(codec, message)
    return (types, *((name, str(fields[name])) for name in index_names)) if index_names else ()


def _renumber_messages(position: StreamPosition, messages: Sequence[bytes]) -> list[bytes]:
    """The messages, adapted to follow those that were sent: sequence numbers, one JSON array."""
    if position.codec == "json-array":
        return [b"," + message.lstrip(b"[, \r\n") for message in messages[:1]] + [*messages[1:]]
    if position.codec != "sse":
        return list(messages)
    sent_numbers = (
        framed_message_contents.message_json_fields("sse", message).get(_SEQUENCE_NUMBER_FIELD)
        for message in reversed(position.sent_messages)
    )
    last_number = next((number for number in sent_numbers if isinstance(number, int)), None)
    if last_number is None:
        return list(messages)
    return [
        _renumber_event(message, number) for number, message in enumerate(messages, last_number + 1)
    ]


def _renumber_event(event: bytes, number: int) -> bytes:
    fields = dict(framed_message_contents.message_json_fields("sse", event))
    if _SEQUENCE_NUMBER_FIELD not in fields:
        return event
    return sse.encode_event(
        response_encoding.single_line_json({**fields, _SEQUENCE_NUMBER_FIELD: number}),
        sse.parse_event(event).event_type,
    )


def truncation_mechanism(finish: FinishReason) -> OneShot:
    """The mechanism that ends a response at its location with this finish reason.

    A whole body keeps the first half of its text.  A stream ends when its next message was due.
    """

    def check_applicable(position: StreamPosition) -> None:
        turn = to_representable_turn(position, Turn((Text("a"),), finish=finish))
        if turn.finish in _NORMAL_FINISHES:
            name = position.context.decoded_request.dialect.name
            raise FaultNotApplicable(f"{name} has no finish reason '{finish}'")

    def inject(position: StreamPosition) -> InjectedActions:
        decoded_request = position.context.decoded_request
        if position.codec != "whole":
            return inject_ending(position, lambda turn: _with_finish(turn, finish, decoded_request))
        turns = [
            _with_finish(_with_first_half_of_text(turn), finish, decoded_request)
            for turn in decode_whole_response(position)
        ]
        return inject_replacement(position, turns)

    return OneShot(
        inject, taken_message_count=1, changes_length=True, check_applicable=check_applicable
    )


def _with_finish(turn: Turn, finish: FinishReason, decoded_request: DecodedRequest) -> Turn:
    """The turn with this finish reason, and with its usage estimated up to there."""
    usage = turn.usage or Usage()
    input_tokens = usage.input
    if input_tokens is None:
        conversation = decoded_request.dialect.decode_request(decoded_request.request)
        messages = conversation.messages if conversation is not None else ()
        input_tokens = _estimate_tokens(part for message in messages for part in message.parts)
    usage = replace(
        usage, input=input_tokens, output=_estimate_tokens(turn.parts), total=None, reasoning=None
    )
    return replace(turn, finish=finish, finish_raw="", usage=usage)


def _estimate_tokens(parts: Iterable[Part]) -> int:
    names = ("text", "name", "arguments", "content")
    texts = (str(getattr(part, name, "")) for part in parts for name in names)
    return estimates_and_fakes.estimated_token_count("".join(texts))


def _with_first_half_of_text(turn: Turn) -> Turn:
    """The turn up to the middle of its text; tool calls follow the text, so they are dropped."""
    parts: list[Part] = []
    remaining_chars = len(turn.text) // 2
    for part in turn.parts:
        match part:
            case Reasoning():
                parts.append(part)
            case Text(text) if remaining_chars > 0:
                parts.append(Text(text[:remaining_chars]))
                remaining_chars -= len(text)
            case _:
                break
    return replace(turn, parts=tuple(parts), metadata=())
