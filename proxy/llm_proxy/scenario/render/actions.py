"""Renders scripted responses as timed actions.

At its own pace an answer that is streamed goes out in slots.  Each piece of what is said has one,
and what the wire tells beside it (an opening, the end of a part) goes with the piece before it.
The last piece has a whole slot too before the stream is closed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from llm_proxy.actions import Begin, Burst, Send
from llm_proxy.dialects import fakes
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.decoded_request import DecodedRequest
from llm_proxy.dialects.encode_context import EncodeContext, token_pieces
from llm_proxy.errors import ScriptExhausted
from llm_proxy.pacing import (
    InstantPace,
    ModelledPace,
    Pace,
    RecordedPace,
    TokenRatePace,
    timing,
    tokens,
)
from llm_proxy.pacing.pace_actions import pace_actions
from llm_proxy.pacing.timing import PacedResponse, ResponseTimes
from llm_proxy.scenario.render import failures
from llm_proxy.scenario.render.failures import FailureLimits
from llm_proxy.scenario.scripted_response import FailResponse, ReportExhausted, SendTurns

Says = Callable[[str, bytes], int]
"""How many characters a message of this codec adds to what was said."""


def response_actions(
    send_turns: SendTurns | FailResponse | ReportExhausted,
    decoded_request: DecodedRequest,
    says: Says,
    pace: Pace,
    limits: FailureLimits,
) -> Burst:
    """The actions that answer a request so.

    Raises `NotRepresentable` for what the dialect has no words for, and `ScriptExhausted`.
    """
    match send_turns:
        case SendTurns():
            if pace.chunks == "token":
                send_turns = replace(send_turns, split_text=token_pieces)
            response = _encode_turns(send_turns, decoded_request)
            times = _response_times(send_turns, response, decoded_request, says, pace)
            return pace_actions(response.head, tuple(response.messages), times, pace)
        case FailResponse():
            return failures.failure_actions(send_turns, decoded_request, limits)
        case ReportExhausted(message):
            raise ScriptExhausted(message)


def immediate_actions(response: DialectResponse) -> Burst:
    """The actions of a response that nothing holds back."""
    return (Begin(response.head), *map(Send, response.messages))


def encode_context_for(say: SendTurns, delivery: EncodeContext) -> EncodeContext:
    """How this is told."""
    return replace(
        delivery,
        split_text=say.split_text,
        turns_are_successive=say.turns_are_successive,
        signs_reasoning=say.signs_reasoning,
    )


def _encode_turns(say: SendTurns, decoded_request: DecodedRequest) -> DialectResponse:
    return decoded_request.dialect.encode(
        decoded_request.request, say.turns, encode_context_for(say, decoded_request.context)
    )


def _response_times(
    say: SendTurns,
    response: DialectResponse,
    decoded_request: DecodedRequest,
    says: Says,
    pace: Pace,
) -> ResponseTimes:
    """When everything is due: at the answer's own times, as far as this pace leaves them."""
    is_document = response.codec == "whole"
    messages = tuple(response.messages)
    match pace:
        case TokenRatePace() | ModelledPace():
            counted = tuple(says(response.codec, message) for message in messages)
            number = tokens.output_characters(say.turns) if is_document else sum(counted)
            count, prompt = (
                partial(fakes.tokens_of_chars, number),
                partial(_prompt_tokens, decoded_request),
            )
            paced_response = PacedResponse(messages, counted, count, prompt, is_document)
            return timing.response_times(
                pace, paced_response, timing.seeded_chance(decoded_request.context.seed)
            )
        case InstantPace():
            return ResponseTimes(0.0, (0.0,) * len(messages), 0.0)
        case RecordedPace(speed):
            slots = (0.0,) * (len(messages) + 1)
            if say.timing.gap_ms is not None and not is_document:
                slots = _message_slots(
                    [says(response.codec, message) for message in messages], say.timing.gap_ms
                )
            before = say.timing.thinking_ms
            *moments, end = ((before + slot) / speed for slot in slots)
            return ResponseTimes(before / speed, tuple(moments), end)


def _prompt_tokens(decoded_request: DecodedRequest) -> int:
    return tokens.prompt_tokens((), decoded_request.dialect.decode_request(decoded_request.request))


def _message_slots(says: Sequence[int], gap: Callable[[int], float]) -> tuple[float, ...]:
    """When the slot of each message begins, and that of the body's end, in ms after the head."""
    count = sum(map(bool, says))
    slots: list[float] = []
    at, told, over = 0.0, 0, False
    for number in (*says, 0):
        closes = told == count and not over
        if told and (number or closes):
            at += gap(told)
        slots.append(at)
        told += bool(number)
        over = over or closes
    return tuple(slots)
