"""Renders scripted responses and failures as timed actions.

At its own pace a streamed response is sent in slots.  Each piece of output has one slot, and
messages without output (a stream's start, the end of a part) share the slot of the piece before.
The last piece has a full slot too before the stream is closed.

Paces do not apply to failures: a retry delay is sent exactly as the scenario gives it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from llm_proxy.actions import Abort, Begin, Burst, Send, Wait
from llm_proxy.dialects import estimates_and_fakes, lenient_json, response_encoding
from llm_proxy.dialects.base import DecodedRequest, DialectResponse
from llm_proxy.dialects.encode_context import EncodeContext, token_pieces
from llm_proxy.errors import ScriptExhausted
from llm_proxy.exchange import ResponseHead
from llm_proxy.framing.message_edits import truncate_json
from llm_proxy.pacing import (
    InstantPace,
    ModelledPace,
    Pace,
    RecordedPace,
    TokenRatePace,
    timing,
    tokens,
)
from llm_proxy.pacing.timing import PaceInput, ResponseTimes, pace_actions
from llm_proxy.scenario.scripted_response import FailResponse, ReportScriptExhausted, SendTurns
from llm_proxy.turns import Failure, FinishReason, Json, Text, Turn

_PARTIAL_TURN: Final = Turn((Text("The"),), finish=FinishReason.STOP)
"""Sent before a stream is aborted or truncated."""
_ERROR_STATUSES: Final = range(400, 600)
_NO_RETRY_HEADER: Final = ("x-should-retry", "false")
"""The header that keeps SDKs from retrying."""


def response_actions(
    scripted_action: SendTurns | FailResponse | ReportScriptExhausted,
    decoded_request: DecodedRequest,
    pace: Pace,
    max_silence_ms: float,
) -> Burst:
    """The timed actions of a scripted response; `max_silence_ms` is that of a `timeout` failure.

    Raises `NotRepresentable` for what the dialect cannot encode, and `ScriptExhausted`.
    """
    match scripted_action:
        case SendTurns():
            if pace.chunks == "token":
                scripted_action = replace(scripted_action, split_text=token_pieces)
            response = decoded_request.dialect.encode_response(
                decoded_request.request,
                scripted_action.response_turns,
                encode_context_for(scripted_action, decoded_request.context),
            )
            times = _response_send_times(scripted_action, response, decoded_request, pace)
            return pace_actions(response.head, tuple(response.framed_messages), times, pace)
        case FailResponse():
            return _failure_actions(scripted_action, decoded_request, max_silence_ms)
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


def _response_send_times(
    send_turns: SendTurns,
    response: DialectResponse,
    decoded_request: DecodedRequest,
    pace: Pace,
) -> ResponseTimes:
    """When each message is due: by the pace, or at a recorded pace by the response's timing."""
    messages, codec = tuple(response.framed_messages), response.codec_name
    is_document = codec == "whole"
    dialect = decoded_request.dialect

    def char_counts() -> tuple[int, ...]:
        return tuple(dialect.output_chars(codec, message) for message in messages)

    match pace:
        case InstantPace():
            return ResponseTimes(0.0, (0.0,) * len(messages), 0.0)
        case TokenRatePace() | ModelledPace():
            counts = char_counts()
            output_chars = (
                tokens.count_output_chars(send_turns.response_turns) if is_document else sum(counts)
            )
            pace_input = PaceInput(
                messages,
                counts,
                lambda: estimates_and_fakes.token_count_of_chars(output_chars),
                lambda: tokens.count_prompt_tokens(
                    (), dialect.decode_request(decoded_request.request)
                ),
                is_document,
            )
            draw = timing.make_seeded_draw(decoded_request.context.seed)
            return timing.response_times(pace, pace_input, draw)
        case RecordedPace(speed):
            gap_ms, thinking_ms = send_turns.timing.compute_gap_ms, send_turns.timing.thinking_ms
            slot_starts_ms = (
                [0.0] * (len(messages) + 1)
                if gap_ms is None or is_document
                else _message_slot_starts_ms(char_counts(), gap_ms)
            )
            *message_times_ms, end_ms = [
                (thinking_ms + start_ms) / speed for start_ms in slot_starts_ms
            ]
            return ResponseTimes(thinking_ms / speed, tuple(message_times_ms), end_ms)


def _message_slot_starts_ms(
    char_counts: Sequence[int], gap_ms: Callable[[int], float]
) -> list[float]:
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
    return slot_starts_ms


def _failure_actions(
    fail: FailResponse, decoded_request: DecodedRequest, max_silence_ms: float
) -> Burst:
    """The actions of a failure.

    Raises `NotRepresentable` if it starts with a response that the dialect cannot encode.
    """
    match fail.failure_status:
        case "timeout":
            return (Wait(max_silence_ms), Abort("fin"))
        case "network_error" if fail.retryable:
            return (Abort("rst"),)
        case "network_error":
            # No SDK retries a reset within a stream; without a stream, a 502 takes its place.
            response = _partial_response(decoded_request)
            if response.codec_name == "whole":
                return _http_error_actions(502, fail, decoded_request)
            return (Begin(response.head), Send(response.framed_messages[0]), Abort("rst"))
        case "invalid_response":
            response = _partial_response(decoded_request)
            body = truncate_json(response.codec_name, response.framed_messages[0])
            return (Begin(_with_content_length(response.head, body)), Send(body))
        case "rate_limit":
            # The only failure with retry headers; it never forbids a retry.
            delay_ms = fail.retry_after_ms
            response = _error_response(
                429, fail, decoded_request, None if delay_ms is None else delay_ms / 1000
            )
            return immediate_actions(response_encoding.with_retry_headers(response, delay_ms))
        case "thrown":
            return _http_error_actions(500, fail, decoded_request)
        case "model_error":
            return _http_error_actions(500 if fail.retryable else 400, fail, decoded_request)


def _partial_response(decoded_request: DecodedRequest) -> DialectResponse:
    return decoded_request.dialect.encode_response(
        decoded_request.request, (_PARTIAL_TURN,), decoded_request.context
    )


def _http_error_actions(status: int, fail: FailResponse, decoded_request: DecodedRequest) -> Burst:
    """An HTTP error, with a header against retries if it is not retryable."""
    response = _error_response(status, fail, decoded_request)
    if not fail.retryable:
        head = response.head
        response = replace(response, head=replace(head, headers=(*head.headers, _NO_RETRY_HEADER)))
    return immediate_actions(response)


def _error_response(
    status: int,
    fail: FailResponse,
    decoded_request: DecodedRequest,
    retry_after_s: float | None = None,
) -> DialectResponse:
    """The dialect's error response with the `error` fields of the scenario.

    `status`, else `statusCode`, sets the HTTP status if it is the status of an error.
    """
    fields = dict(fail.error_fields or {})
    message = lenient_json.str_or_empty(fields.pop("message", "")) or fail.message
    for name in ("statusCode", "status"):
        value = fields.get(name)
        if isinstance(value, int | float) and value in _ERROR_STATUSES:
            status = int(value)
            del fields[name]
    failure = Failure(message, type=lenient_json.str_or_empty(fields.get("type")))
    response = decoded_request.dialect.error_response(
        status, failure, decoded_request.context, retry_after_s
    )
    return _with_error_fields(response, fields) if fields else response


def _with_error_fields(response: DialectResponse, fields: Mapping[str, Json]) -> DialectResponse:
    """Add fields to the `error` object of a response, or to the document if it has none."""
    document = response_encoding.Document(
        lenient_json.parse_object(b"".join(response.framed_messages))
    )
    error = document.get("error")
    (error if isinstance(error, dict) else document).update(fields)
    body = response_encoding.single_line_json(document)
    return replace(
        response, head=_with_content_length(response.head, body), framed_messages=(body,)
    )


def _with_content_length(head: ResponseHead, body: bytes) -> ResponseHead:
    """The head with the length of this body, if it declares one."""
    return replace(head, content_length=len(body)) if head.framing == "length" else head
