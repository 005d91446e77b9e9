"""The dialect `bedrock`: Converse and InvokeModel, whole and streamed.

The path names the model and the operation; an ARN in it comes percent-encoded, or (of older
clients) as it is.  A stream is made of binary frames.  It has no terminator: `messageStop`, or
the last event of the model's own, says that the message has ended.  A frame whose type is
`exception` or `error` ends a stream for good.  Clients raise on bytes that are no frame.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final
from urllib.parse import quote, unquote

import orjson

from llm_proxy import framing
from llm_proxy.conversation import Conversation
from llm_proxy.dialects import conversion, json_api, lenient_json, response_encoding
from llm_proxy.dialects.base import Completeness, DialectResponse
from llm_proxy.dialects.bedrock import (
    auxiliary_responses,
    converse_capabilities,
    converse_decoder,
    converse_encoder,
    converse_request_decoder,
    errors,
    frames,
    invoke_decoder,
    invoke_encoder,
    model_formats,
    usage,
)
from llm_proxy.dialects.bedrock.invoke_decoder import BedrockStreamDecoder
from llm_proxy.dialects.bedrock.model_format import ModelFormat
from llm_proxy.dialects.capabilities import Capabilities
from llm_proxy.dialects.conversion import ConvertedTurns
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.errors import NotRepresentable
from llm_proxy.exchange import Headers, Request, ResponseHead, header_value
from llm_proxy.framing.eventstream import EventStreamCodec, Frame, parse_frame
from llm_proxy.turns import Failure, TokenCounting, Turn

_WHOLE: Final = ("converse", "invoke")
_STREAMED: Final = ("converse-stream", "invoke-with-response-stream")
_MODEL: Final = "/model/"
_COUNT: Final = "count-tokens"
_UNLIMITED: Final = 2**40
"""Bytes: frames that were cut at the limit for messages are put together again."""


class Bedrock:
    """The dialect `bedrock`."""

    name = "bedrock"
    volatile_paths: tuple[str, ...] = ()
    key_headers: tuple[str, ...] = ()
    id_paths = (
        "$.messages[*].content[*].toolUse.toolUseId",
        "$.messages[*].content[*].toolResult.toolUseId",
        "$.messages[*].content[*].id",
        "$.messages[*].content[*].tool_use_id",
        "$.messages[*].tool_calls[*].id",
        "$.messages[*].tool_call_id",
    )
    """Those of Converse; of Claude's own words, and of chat's."""
    token_counting = TokenCounting(cache_is_input=False)
    overloaded_status = 503

    def matches(self, request: Request) -> bool:
        """A POST to an operation of a model, whatever a gateway puts in front."""
        model, operation = _model_and_operation(request)
        known = operation in (*_WHOLE, *_STREAMED, _COUNT)
        return request.method == "POST" and bool(model) and known

    def model(self, request: Request) -> str:
        """The one in the path: an id, or an ARN."""
        return _model_and_operation(request)[0]

    def streams(self, request: Request) -> bool:
        """Where the operation says so."""
        return _model_and_operation(request)[1] in _STREAMED

    def decode_request(self, request: Request) -> Conversation | None:
        """As Converse asks it, or as the model's maker does; none where nobody knows the maker."""
        model, operation = _model_and_operation(request)
        body = lenient_json.parse_object(request.body)
        if not body or operation not in (*_WHOLE, *_STREAMED):
            return None
        if operation.startswith(_WHOLE[0]):
            return replace(
                converse_request_decoder.decode_request(body),
                wants_signed_reasoning=model_formats.signs_reasoning(model),
            )
        try:
            return model_formats.format_of_model(model, body).decode_request(body)
        except NotRepresentable:
            return None

    def codec(self, request: Request, head: ResponseHead) -> str:
        """Frames by content type; where a streamed response has none, by what was asked for."""
        if not json_api.succeeded(head):
            return "whole"
        content_type = header_value(head.headers, "content-type")
        framed = framing.codec_of_content_type(content_type) == frames.CODEC
        is_stream = framed or (not content_type and self.streams(request))
        return frames.CODEC if is_stream else "whole"

    def completeness(self, response: DialectResponse) -> Completeness:
        """Whole by the event that ends the message, or by an error in the stream."""
        if response.codec != frames.CODEC or not json_api.succeeded(response.head):
            return json_api.completeness(response)
        answer = BedrockStreamDecoder()
        for frame in _decode_frames(response):
            if frame is None:
                return Completeness(is_complete=False, reason="bytes that are no frame")
            failed = _decode_exception_frame(frame) or _feed_frame(answer, frame).failure
            if failed:
                return json_api.completeness_by_error(failed)
        if answer.ending_reason:
            return Completeness(is_complete=True, reason=answer.ending_reason)
        is_empty = not json_api.joined_body(response)
        return Completeness(
            is_complete=False, reason="empty stream" if is_empty else "no event ends it"
        )

    def decode(self, response: DialectResponse) -> tuple[Turn, ...]:
        """One turn; one a choice where the model's maker gives several."""
        if not json_api.succeeded(response.head):
            return (Turn((), failure=_decode_http_error(response)),)
        answer = BedrockStreamDecoder()
        if response.codec != frames.CODEC:
            answer.feed_model_document(
                lenient_json.parse_object(json_api.joined_body(response)), streamed=False
            )
            counted = usage.decode_header_usage(response.head.headers)
            return tuple(replace(item, usage=item.usage or counted) for item in answer.result())
        failed: Failure | None = None
        for frame in filter(None, _decode_frames(response)):
            failed = failed or _decode_exception_frame(frame)
            _feed_frame(answer, frame)
        turns = answer.result()
        if failed:
            turns = tuple(replace(turn, failure=turn.failure or failed) for turn in turns)
            return turns or (Turn((), failure=failed),)
        return turns

    def output_chars(self, codec: str, message: bytes) -> int:
        """What a delta says, of Converse or of the model's own."""
        frame = parse_frame(message) if codec == frames.CODEC else None
        if frame is None:
            return 0
        event, fields = frame.header(frames.EVENT_TYPE), lenient_json.parse_object(frame.payload)
        own = event == frames.CHUNK
        return (
            invoke_decoder.model_event_output_chars(_unwrap_chunk(fields))
            if own
            else converse_decoder.event_output_chars(event, fields)
        )

    def keep_alive_message(self, codec: str) -> bytes:
        """None: frames have no comments."""
        return b""

    def error_body(self, status: int, kind: str, message: str) -> bytes:
        """AWS names the kind in a header, else in the body, where its SDKs look too."""
        return orjson.dumps({"message": message, "__type": kind})

    def sample_request(self, model: str, *, stream: bool) -> Request:
        """Converse, which fits any model."""
        operation = _STREAMED[0] if stream else _WHOLE[0]
        return response_encoding.json_post_request(
            f"{_MODEL}{quote(model, safe='')}/{operation}", {"messages": []}
        )

    def convert(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> ConvertedTurns:
        """As Converse tells them, or the model itself."""
        has_failed = any(turn.failure for turn in turns)
        words = _response_capabilities(
            request, context, streams=self.streams(request), has_failed=has_failed
        )
        return conversion.convert(turns, words, self.model(request), context)

    def encode(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> DialectResponse:
        """Frames up to the metadata or the service's metrics, or one document."""
        (turn,) = self.convert(request, turns, context).turns
        streams = self.streams(request)
        if turn.failure and not streams:
            return errors.whole_error_response(turn.failure, context)
        if maker := _model_format_of(request):
            return invoke_encoder.encode_model_response(maker, turn, context, streams=streams)
        return converse_encoder.encode_response(turn, context, streams=streams)

    def error_response(
        self,
        status: int,
        failure: Failure,
        context: EncodeContext,
        retry_after: float | None = None,
    ) -> DialectResponse:
        """The message, and in a header the kind of the error."""
        return errors.error_response(status, failure, context, retry_after)

    def rate_limit_headers(self, context: EncodeContext) -> Headers:
        """None tells limits."""
        return ()

    def auxiliary_response(
        self, request: Request, context: EncodeContext
    ) -> DialectResponse | None:
        """Counts of tokens."""
        if _model_and_operation(request)[1] == _COUNT:
            return auxiliary_responses.count_tokens(
                lenient_json.parse_object(request.body), context
            )
        return None


def _model_and_operation(request: Request) -> tuple[str, str]:
    path, _, operation = request.path.rpartition("/")
    return unquote(path.partition(_MODEL)[2]), operation


def _response_capabilities(
    request: Request, context: EncodeContext, *, streams: bool, has_failed: bool
) -> Capabilities:
    """The words of an answer to this request; an HTTP error is the same whoever answers."""
    is_http_error = has_failed and not streams
    maker = None if is_http_error else _model_format_of(request)
    if maker is None:
        return converse_capabilities.capabilities(streams=streams)
    return invoke_encoder.model_capabilities(maker, streams=streams, context=context)


def _model_format_of(request: Request) -> ModelFormat | None:
    """Who answers in a shape of their own; None where Converse is asked.

    May raise `NotRepresentable`.
    """
    model, operation = _model_and_operation(request)
    if operation.startswith(_WHOLE[0]):
        return None
    return model_formats.format_of_model(model, lenient_json.parse_object(request.body))


def _decode_frames(response: DialectResponse) -> Iterator[Frame | None]:
    """The frames; None for what is none."""
    cutter = EventStreamCodec(_UNLIMITED)
    for message in response.messages:
        yield from map(parse_frame, cutter.feed(message))
    yield from map(parse_frame, cutter.close())


def _feed_frame(answer: BedrockStreamDecoder, frame: Frame) -> BedrockStreamDecoder:
    """The answer, with what the frame says; a `chunk` holds an event of the model's own."""
    fields = lenient_json.parse_object(frame.payload)
    event = frame.header(frames.EVENT_TYPE)
    if event == frames.CHUNK:
        answer.feed_model_document(_unwrap_chunk(fields), streamed=True)
    else:
        answer.feed_converse_event(event, fields)
    return answer


def _unwrap_chunk(fields: Fields) -> Fields:
    try:
        return lenient_json.parse_object(
            base64.b64decode(lenient_json.str_or_empty(fields.get("bytes")), validate=True)
        )
    except ValueError:
        return {}


def _decode_exception_frame(frame: Frame) -> Failure | None:
    """What an exception that the service names says, or an error that it does not."""
    fields = lenient_json.parse_object(frame.payload)
    match frame.header(frames.MESSAGE_TYPE):
        case frames.EXCEPTION:
            return Failure(
                message=_error_message(fields),
                type=frame.header(frames.EXCEPTION_TYPE),
                code=lenient_json.printable_text(fields.get(frames.STATUS)),
            )
        case "error":
            return Failure(frame.header(":error-message"), type=frame.header(":error-code"))
        case _:
            return None


def _error_message(fields: Fields) -> str:
    """The message, and the model's own where it adds to it; some services write it in capitals."""
    message = lenient_json.printable_text(fields.get("message")) or lenient_json.printable_text(
        fields.get("Message")
    )
    original = lenient_json.printable_text(fields.get("originalMessage"))
    return message if original in message else f"{message} ({original})".strip()


def _decode_http_error(response: DialectResponse) -> Failure:
    """An HTTP error: its kind stands in a header, `ValidationException:http://...`, or beside."""
    fields = lenient_json.parse_object(json_api.joined_body(response))
    found = json_api.decode_http_error(response)
    named = header_value(response.head.headers, errors.TYPE) or lenient_json.printable_text(
        fields.get("__type")
    )
    return replace(
        found,
        message=_error_message(fields) or found.message,
        type=named.rpartition("#")[2].partition(":")[0] or found.type,
    )
