"""The dialect `bedrock`: Converse and InvokeModel, whole and streamed.

The path names the model and the operation; an ARN in it is percent-encoded, or (from older
clients) not.  A stream consists of binary frames.  It has no terminator: `messageStop`, or the last
event of the model's own format, ends the message.  A frame of type `exception` or `error` ends the
stream.  Clients raise on bytes that are not a frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final
from urllib.parse import unquote

import orjson

from llm_proxy import framing
from llm_proxy.conversation import Conversation
from llm_proxy.dialects import json_api, response_encoding
from llm_proxy.dialects.base import Completeness, Dialect, DialectResponse, MetadataNames
from llm_proxy.dialects.bedrock import (
    auxiliary_responses,
    converse,
    converse_requests,
    errors,
    frames,
    invoke,
    model_formats,
    usage,
)
from llm_proxy.dialects.bedrock.converse_requests import CONVERSE, CONVERSE_STREAM, MODEL_SEGMENT
from llm_proxy.dialects.bedrock.invoke import BedrockResponseDecoder
from llm_proxy.dialects.bedrock.model_formats import ModelFormat
from llm_proxy.dialects.encoding import EncodeContext
from llm_proxy.dialects.lenient_json import parse_object
from llm_proxy.dialects.wire import WireFormat
from llm_proxy.exchange import Request, ResponseHead, header_value
from llm_proxy.framing.eventstream import parse_frame
from llm_proxy.turns import Failure, TokenCounting, Turn

_DOCUMENT_OPERATIONS: Final = (CONVERSE, "invoke")
_STREAM_OPERATIONS: Final = (CONVERSE_STREAM, "invoke-with-response-stream")
_COUNT_OPERATION: Final = "count-tokens"


class Bedrock(Dialect):
    """The dialect `bedrock`."""

    name = "bedrock"
    id_json_paths = (
        "$.messages[*].content[*].toolUse.toolUseId",
        "$.messages[*].content[*].toolResult.toolUseId",
        "$.messages[*].content[*].id",
        "$.messages[*].content[*].tool_use_id",
        "$.messages[*].tool_calls[*].id",
        "$.messages[*].tool_call_id",
    )
    """Those of Converse, of Claude's own format, and of the chat format."""
    tool_result_json_paths = (
        "$.messages[*].content[*].toolResult.content",
        "$.messages[*].content[type=tool_result].content",
        "$.messages[role=tool].content",
    )
    """In the same formats."""
    token_counting = TokenCounting(cache_is_input=False)
    metadata_names = MetadataNames(("bedrock", "amazon", "anthropic"), "anthropic")
    counted_texts = frozenset((("contentBlockIndex", "text"),))
    """Nova counts each piece as a block."""

    def matches(self, request: Request) -> bool:
        """A POST to an operation of a model, with any path prefix."""
        model, operation = _model_and_operation(request)
        is_known = operation in (*_DOCUMENT_OPERATIONS, *_STREAM_OPERATIONS, _COUNT_OPERATION)
        return request.method == "POST" and bool(model) and is_known

    def model(self, request: Request) -> str:
        """The model in the path: an id, or an ARN."""
        return _model_and_operation(request)[0]

    def streams(self, request: Request) -> bool:
        """Whether the operation is a streaming one."""
        return _model_and_operation(request)[1] in _STREAM_OPERATIONS

    def decode_request(self, request: Request) -> Conversation | None:
        """Decodes Converse or the model's own format; None if that format is unknown."""
        model, operation = _model_and_operation(request)
        body = parse_object(request.body)
        if not body or operation not in (*_DOCUMENT_OPERATIONS, *_STREAM_OPERATIONS):
            return None
        if operation not in (CONVERSE, CONVERSE_STREAM):
            conversation = model_formats.decode_request(model, body)
            return conversation and replace(conversation, model=model)
        return replace(
            converse_requests.decode_request(body),
            model=model,
            wants_signed_reasoning=model_formats.requires_signed_reasoning(model),
        )

    def encode_request(
        self, conversation: Conversation, *, stream: bool = True, provider: str = ""
    ) -> Request:
        """A Converse request, which works with any model."""
        top_k_path = model_formats.top_k_path(conversation.model)
        return converse_requests.encode_request(conversation, top_k_path, stream=stream)

    def codec_name(self, request: Request, head: ResponseHead) -> str:
        """Frames or whole, by content type; without one, by the operation."""
        if not json_api.succeeded(head):
            return "whole"
        content_type = header_value(head.headers, "content-type")
        is_event_stream = framing.codec_name_for_content_type(content_type) == frames.CODEC
        is_stream = is_event_stream or (not content_type and self.streams(request))
        return frames.CODEC if is_stream else "whole"

    def completeness(self, response: DialectResponse) -> Completeness:
        """Complete with the event that ends the message, or with an error in the stream."""
        if response.codec_name != frames.CODEC or not json_api.succeeded(response.head):
            return json_api.completeness(response)
        decoder = BedrockResponseDecoder()
        for frame in frames.decode_frames(response):
            if frame is None:
                return Completeness(is_complete=False, reason="invalid frame")
            decoder.feed_frame(frame)
            if failure := decoder.exception or decoder.failure:
                return json_api.completed_by_error(failure)
        if decoder.ending_reason:
            return Completeness(is_complete=True, reason=decoder.ending_reason)
        return json_api.incomplete(response, "no final event")

    def decode_response(self, response: DialectResponse) -> tuple[Turn, ...]:
        """One turn, or one per choice of the model's own format."""
        if not json_api.succeeded(response.head):
            return (Turn((), failure=errors.decode_http_error(response)),)
        turns = json_api.decoded_turns(self.response_decoder(response.codec_name), response)
        if response.codec_name == frames.CODEC:
            return turns
        header_usage = usage.decode_headers(response.head.headers)
        return tuple(replace(turn, usage=turn.usage or header_usage) for turn in turns)

    def response_decoder(self, codec_name: str) -> BedrockResponseDecoder:
        """A decoder of frames, or of a document; it has no counts of tokens that headers have."""
        return BedrockResponseDecoder(codec_name)

    def output_chars(self, codec: str, message: bytes) -> int:
        """The characters of a delta, of Converse or of the model's own format."""
        frame = parse_frame(message) if codec == frames.CODEC else None
        if frame is None:
            return 0
        event, fields = frame.header(frames.EVENT_TYPE), parse_object(frame.payload)
        is_chunk = event == frames.CHUNK_EVENT
        return (
            invoke.model_event_output_chars(frames.unwrap_chunk(fields))
            if is_chunk
            else converse.event_output_chars(event, fields)
        )

    def error_body(self, status: int, kind: str, message: str) -> bytes:
        """The type is in the body: AWS sends it in a header, but its SDKs read both."""
        return orjson.dumps({"message": message, "__type": kind})

    def sample_request(self, model: str, *, stream: bool) -> Request:
        """A Converse request, which works with any model."""
        return response_encoding.json_post_request(
            converse_requests.path(model, stream=stream), {"messages": []}
        )

    def wire_format(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> WireFormat:
        """That of Converse or of the model's own format; HTTP errors are the same for all."""
        streams = self.streams(request)
        is_http_error = not streams and any(turn.failure for turn in turns)
        model_format = None if is_http_error else _model_format_of(request)
        if model_format is None:
            return converse.wire_format(stream=streams)
        return invoke.wire_format(model_format, stream=streams)

    def encode_turns(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> DialectResponse:
        """Frames up to the metadata or the service's metrics, or one document."""
        [turn] = turns
        streams, model_format = self.streams(request), _model_format_of(request)
        if model_format is None:
            return converse.encode_response(turn, context, streams=streams)
        return invoke.encode_response(model_format, turn, context, streams=streams)

    def error_response_of_turn(self, turn: Turn, context: EncodeContext) -> DialectResponse:
        """An HTTP error of a type that the service has."""
        return errors.error_response_of_failure(turn.failure or Failure(""), context)

    def error_response(
        self,
        status: int,
        failure: Failure,
        context: EncodeContext,
        retry_after: float | None = None,
    ) -> DialectResponse:
        """An error with its message in the body, and its type in a header."""
        return errors.error_response(status, failure, context, retry_after)

    def auxiliary_response(
        self, request: Request, context: EncodeContext
    ) -> DialectResponse | None:
        """Token counts."""
        if _model_and_operation(request)[1] == _COUNT_OPERATION:
            return auxiliary_responses.count_tokens_response(parse_object(request.body), context)
        return None


def _model_and_operation(request: Request) -> tuple[str, str]:
    path, _, operation = request.path.rpartition("/")
    return unquote(path.partition(MODEL_SEGMENT)[2]), operation


def _model_format_of(request: Request) -> ModelFormat | None:
    """The model's own format; None for a Converse request.

    Raises `NotRepresentable` if responses in that format are not encoded.
    """
    model, operation = _model_and_operation(request)
    if operation in (CONVERSE, CONVERSE_STREAM):
        return None
    return model_formats.format_of_model(model, parse_object(request.body))
