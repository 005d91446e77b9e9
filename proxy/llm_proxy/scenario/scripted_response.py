"""The scripted response to a request, and its rendering as timed actions.

Scenarios, mocks and synthesis create scripted responses; a dialect encodes them.  Texts are split
into pieces for streaming.  No draw of a gap between pieces depends on another, so concurrent or
reordered requests get the same durations.

At its own pace a streamed response is sent in slots.  Each piece of output has one slot, and
messages without output (a stream's start, the end of a part) share the slot of the piece before.
The last piece has a full slot too before the stream is closed.

Paces do not apply to failures: a retry delay is sent exactly as the scenario gives it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from llm_proxy.actions import Abort, Begin, Burst, Send, Wait
from llm_proxy.chance import seeded_uniform
from llm_proxy.dialects import estimates_and_fakes, response_encoding
from llm_proxy.dialects.base import DecodedRequest, DialectResponse
from llm_proxy.dialects.encoding import EncodeContext, one_piece, token_pieces
from llm_proxy.dialects.lenient_json import get_string, parse_object, str_or_empty
from llm_proxy.errors import ScriptExhausted
from llm_proxy.exchange import ResponseHead
from llm_proxy.faults.rule import ScenarioRule
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
from llm_proxy.routing import ERROR_HEADER
from llm_proxy.scenario.documents.document import ChunkSpec, FailureStatus, MillisecondsOrRange
from llm_proxy.turns import Failure, FinishReason, Json, Text, Turn

TextSplitter = Callable[[str], Iterable[str]]
"""Splits a text into the pieces of a stream: none is empty, and joined they are the text."""

DEFAULT_FAILURE_MESSAGE: Final = "Simulated failure"
"""The message of a failure without one."""
_WORD_WITH_SPACE: Final = re.compile(r"\s*\S+(?:\s+\Z)?|\s+")
"""A word with its leading white space; the last one also with its trailing white space."""
_PARTIAL_TURN: Final = Turn((Text("The"),), finish=FinishReason.STOP)
"""Sent before a stream is aborted or truncated."""
_ERROR_STATUSES: Final = range(400, 600)
_NO_RETRY_HEADER: Final = ("x-should-retry", "false")
"""The header that keeps SDKs from retrying."""
MISMATCH_STATUS: Final = 424
"""The status of misses, which no SDK retries."""
MISMATCH_ERROR_TYPE: Final = "scenario_mismatch"


@dataclass(frozen=True, slots=True)
class SendTurns:
    """Respond with these turns; delays are those of a response at its own pace."""

    response_turns: tuple[Turn, ...]
    split_text: TextSplitter = one_piece
    thinking_ms: float = 0.0
    """Delay in ms from the end of the request to the status line."""
    gap_ms: Callable[[int], float] | None = None
    """From k to the gap in ms before piece k, for k >= 1; None for no gaps."""
    pace: Pace | None = None
    """The pace that the scenario sets; None for the pace of the run."""
    turns_are_successive: bool = False
    """Whether several turns are streamed one after another and finish once, as choices of one
    response; a dialect without choices encodes them as one."""
    signs_reasoning: bool = True
    """Whether unsigned reasoning gets a made-up signature where clients send signatures back."""


@dataclass(frozen=True, slots=True)
class FailResponse:
    """Fail as a provider does."""

    failure_status: FailureStatus
    message: str = DEFAULT_FAILURE_MESSAGE
    retryable: bool = True
    retry_after_ms: float | None = None
    error_fields: Mapping[str, Json] | None = None
    """Fields for the error object; a `message` in it replaces the field `message`, and a numeric
    `status` or `statusCode` sets the HTTP status."""


@dataclass(frozen=True, slots=True)
class ReportScriptExhausted:
    """Fail with an error because a script has no more responses (document 004)."""

    message: str


@dataclass(frozen=True, slots=True)
class RefuseMismatch:
    """Fail with an error because the request is not what its scenario expects."""

    message: str


ScriptedAction = SendTurns | FailResponse | ReportScriptExhausted | RefuseMismatch


@dataclass(frozen=True, slots=True)
class ScriptedResponse:
    """The action for a request, and its origin."""

    scripted_action: ScriptedAction
    origin: str
    """For the journal: `test-llm: refund, turn 2`, `mock helper`, `synthesis`."""
    session_failure_reason: str = ""
    """Why the session has failed its scenario; empty if it has not."""
    warnings: tuple[str, ...] = ()
    """Sentences for the log."""
    journal_notes: tuple[str, ...] = ()
    """Sentences for the journal."""
    reported_metadata: Mapping[str, Mapping[str, Json]] | None = None
    """Provider metadata, by provider, that is reported with the turn."""
    is_synthesized: bool = False
    """Whether it comes from synthesis, not from a scenario or a mock."""
    fault_rules: tuple[ScenarioRule, ...] = ()
    """Fault rules of the scenario for this response."""
    failure_kind: str = ""
    """Equal for session failures that differ only in the number of the turn; empty for others."""


def text_splitter(chunks: ChunkSpec | None) -> TextSplitter:
    """The splitter for a scenario's `chunks`; without them, texts stay in one piece."""
    match chunks:
        case None | ChunkSpec(by="whole"):
            return one_piece
        case ChunkSpec(by="tokens"):
            return lambda text: _join_in_groups(token_pieces(text), chunks.size)
        case ChunkSpec(by="words"):
            return partial(split_words, size=chunks.size)
        case ChunkSpec():
            return lambda text: _join_in_groups(text, chunks.size)


def split_words(text: str, size: int) -> tuple[str, ...]:
    """Split a text into pieces of `size` words; the last may have fewer.

    White space belongs to the word after it, at the end of the text to the last word.
    """
    return _join_in_groups(_WORD_WITH_SPACE.findall(text), size)


def _join_in_groups(pieces: Sequence[str], size: int) -> tuple[str, ...]:
    return tuple("".join(pieces[start : start + size]) for start in range(0, len(pieces), size))


def draw_ms(span: MillisecondsOrRange, *seed_parts: object) -> float:
    """A duration in ms: a fixed span itself, or a uniform draw from a range."""
    if not isinstance(span, tuple):
        return float(span)
    low, high = span
    return min(low + (high - low) * seeded_uniform(*seed_parts), high)


def gap_ms_drawer(span: MillisecondsOrRange, *seed_parts: object) -> Callable[[int], float] | None:
    """A function from k to the gap in ms before piece k, drawn separately for each k.

    `seed_parts` identify the response: seed, session, key, ordinal.  None if all gaps are zero.
    """
    max_ms = max(span) if isinstance(span, tuple) else span
    return (lambda k: draw_ms(span, *seed_parts, k)) if max_ms > 0 else None


def response_actions(
    scripted_action: ScriptedAction,
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
        case RefuseMismatch(message):
            body = decoded_request.dialect.error_body(MISMATCH_STATUS, MISMATCH_ERROR_TYPE, message)
            headers = ((ERROR_HEADER, MISMATCH_ERROR_TYPE), _NO_RETRY_HEADER)
            return immediate_actions(
                response_encoding.json_response(body, headers, MISMATCH_STATUS)
            )


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
            gap_ms, thinking_ms = send_turns.gap_ms, send_turns.thinking_ms
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
    message = str_or_empty(fields.pop("message", "")) or fail.message
    for name in ("statusCode", "status"):
        value = fields.get(name)
        if isinstance(value, int | float) and value in _ERROR_STATUSES:
            status = int(value)
            del fields[name]
    failure = Failure(message, type=get_string(fields, "type"))
    response = decoded_request.dialect.error_response(
        status, failure, decoded_request.context, retry_after_s
    )
    return _with_error_fields(response, fields) if fields else response


def _with_error_fields(response: DialectResponse, fields: Mapping[str, Json]) -> DialectResponse:
    """Add fields to the `error` object of a response, or to the document if it has none."""
    document = response_encoding.Document(parse_object(response.body))
    error = document.get("error")
    (error if isinstance(error, dict) else document).update(fields)
    body = response_encoding.single_line_json(document)
    return replace(
        response, head=_with_content_length(response.head, body), framed_messages=(body,)
    )


def _with_content_length(head: ResponseHead, body: bytes) -> ResponseHead:
    """The head with the length of this body, if it declares one."""
    return replace(head, content_length=len(body)) if head.framing == "length" else head
