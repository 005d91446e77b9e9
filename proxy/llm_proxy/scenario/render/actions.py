"""Renders scripted responses as timed actions.

At its own pace a streamed response is sent in slots.  Each piece of output has one slot, and
messages without output (a stream's start, the end of a part) share the slot of the piece before.
The last piece has a full slot too before the stream is closed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from llm_proxy.actions import Begin, Burst, Send
from llm_proxy.dialects import estimates_and_fakes
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
from llm_proxy.pacing.timing import PaceInput, ResponseTimes
from llm_proxy.scenario.render import failures
from llm_proxy.scenario.render.failures import FailureLimits
from llm_proxy.scenario.scripted_response import FailResponse, ReportScriptExhausted, SendTurns

OutputCharCounter = Callable[[str, bytes], int]
"""Called with a codec and a message: how many characters of output the message adds."""


def response_actions(
    scripted_action: SendTurns | FailResponse | ReportScriptExhausted,
    decoded_request: DecodedRequest,
    count_output_chars: OutputCharCounter,
    pace: Pace,
    limits: FailureLimits,
) -> Burst:
    """The timed actions of a scripted response.

    Raises `NotRepresentable` for what the dialect cannot encode, and `ScriptExhausted`.
    """
    match scripted_action:
        case SendTurns():
            if pace.chunks == "token":
                scripted_action = replace(scripted_action, split_text=token_pieces)
            response = _encode_turns(scripted_action, decoded_request)
            times = _response_send_times(
                scripted_action, response, decoded_request, count_output_chars, pace
            )
            return pace_actions(response.head, tuple(response.framed_messages), times, pace)
        case FailResponse():
            return failures.failure_actions(scripted_action, decoded_request, limits)
        case ReportScriptExhausted(message):
            raise ScriptExhausted(message)


def immediate_actions(response: DialectResponse) -> Burst:
    """The actions of a response without any delay."""
    return (Begin(response.head), *map(Send, response.framed_messages))


def encode_context_for(send_turns: SendTurns, encode_context: EncodeContext) -> EncodeContext:
    """The encode context with the settings of a scripted response."""
    return replace(
        encode_context,
        split_text=send_turns.split_text,
        choices_are_successive=send_turns.turns_are_successive,
        signs_reasoning=send_turns.signs_reasoning,
    )


def _encode_turns(send_turns: SendTurns, decoded_request: DecodedRequest) -> DialectResponse:
    return decoded_request.dialect.encode_response(
        decoded_request.request,
        send_turns.response_turns,
        encode_context_for(send_turns, decoded_request.context),
    )


def _response_send_times(
    send_turns: SendTurns,
    response: DialectResponse,
    decoded_request: DecodedRequest,
    count_output_chars: OutputCharCounter,
    pace: Pace,
) -> ResponseTimes:
    """When each message is due: by the pace, or at a recorded pace by the response's timing."""
    is_document = response.codec_name == "whole"
    messages = tuple(response.framed_messages)
    match pace:
        case TokenRatePace() | ModelledPace():
            char_counts = tuple(
                count_output_chars(response.codec_name, message) for message in messages
            )
            output_chars = (
                tokens.count_output_chars(send_turns.response_turns)
                if is_document
                else sum(char_counts)
            )
            count_output_tokens, count_prompt_tokens = (
                partial(estimates_and_fakes.token_count_of_chars, output_chars),
                partial(_prompt_tokens, decoded_request),
            )
            paced_response = PaceInput(
                messages, char_counts, count_output_tokens, count_prompt_tokens, is_document
            )
            return timing.response_times(
                pace, paced_response, timing.make_seeded_draw(decoded_request.context.seed)
            )
        case InstantPace():
            return ResponseTimes(0.0, (0.0,) * len(messages), 0.0)
        case RecordedPace(speed):
            slot_starts_ms = (0.0,) * (len(messages) + 1)
            if send_turns.timing.compute_gap_ms is not None and not is_document:
                slot_starts_ms = _message_slot_starts_ms(
                    [count_output_chars(response.codec_name, message) for message in messages],
                    send_turns.timing.compute_gap_ms,
                )
            thinking_ms = send_turns.timing.thinking_ms
            *message_times_ms, end_ms = (
                (thinking_ms + slot_start_ms) / speed for slot_start_ms in slot_starts_ms
            )
            return ResponseTimes(thinking_ms / speed, tuple(message_times_ms), end_ms)


def _prompt_tokens(decoded_request: DecodedRequest) -> int:
    return tokens.count_prompt_tokens(
        (), decoded_request.dialect.decode_request(decoded_request.request)
    )


def _message_slot_starts_ms(
    char_counts: Sequence[int], gap_ms: Callable[[int], float]
) -> tuple[float, ...]:
    """The start of each message's slot, then that of the body's end, in ms after the head."""
    piece_count = sum(map(bool, char_counts))
    slot_starts_ms: list[float] = []
    time_ms, sent_count, is_closing_done = 0.0, 0, False
    for char_count in (*char_counts, 0):
        is_closing = sent_count == piece_count and not is_closing_done
        if sent_count and (char_count or is_closing):
            time_ms += gap_ms(sent_count)
        slot_starts_ms.append(time_ms)
        sent_count += bool(char_count)
        is_closing_done = is_closing_done or is_closing
    return tuple(slot_starts_ms)
