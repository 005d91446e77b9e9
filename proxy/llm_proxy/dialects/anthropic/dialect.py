"""The dialect `anthropic`: the Messages API on any host, and legacy text completions.

A stream is SSE with event names; `message_stop` is its last event, without a `[DONE]` after it.
Servers that omit it have sent the stop reason in `message_delta`, after which a message has no more
content; a legacy completion ends with the event that has a `stop_reason`.  An event named `error`
ends either.

Batches and files are left to the opaque dialect, whose errors have Anthropic's format, too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final
from urllib.parse import unquote

import orjson

from llm_proxy.conversation import Conversation
from llm_proxy.dialects import encoding, json_api, response_encoding
from llm_proxy.dialects.anthropic import messages, other_responses, request_decoder
from llm_proxy.dialects.base import Completeness, Dialect, DialectResponse, MetadataNames
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.lenient_json import Fields, get_text, parse_object, select_metadata
from llm_proxy.dialects.wire import WireFormat
from llm_proxy.exchange import Headers, Request, header_value
from llm_proxy.framing import sse
from llm_proxy.turns import Failure, TokenCounting, Turn

_VERSION_HEADER: Final = "anthropic-version"
"""The header that all clients of Anthropic's API send, and no other client."""

_SAMPLE_MAX_TOKENS: Final = 4096

_PING_EVENT: Final = b'event: ping\ndata: {"type": "ping"}\n\n'

_EVENT_STREAM_TYPE: Final = "text/event-stream; charset=utf-8"

_BASE_PATTERN: Final = r"(?:.*/v1|.*/anthropic|)"
_ENDPOINT_PATH: Final = re.compile(_BASE_PATTERN + r"/(?:messages(?:/count_tokens)?|complete)")
_MESSAGES_PATH_ANYWHERE: Final = re.compile(r".*/messages(?:/count_tokens)?")
_VERTEX_PATH: Final = re.compile(r".*/publishers/anthropic/models/[^/]+:(?:rawP|streamRawP)redict")
_MODELS_PATH: Final = re.compile(_BASE_PATTERN + r"/models(?:/[^/]+)?")
_COUNT_TOKENS_PATH: Final = re.compile(
    r"/(?:messages/count_tokens|models/count-tokens:rawPredict)$"
)
_COMPLETION_SUFFIX: Final = "/complete"
_VERTEX_STREAM_SUFFIX: Final = ":streamRawPredict"
_MODEL_IN_PATH: Final = re.compile(r"/models/([^/]+?)(?::rawPredict|:streamRawPredict)?$")

_ENDING_KINDS: Final = frozenset(("message", "message_delta", "completion"))
"""The kinds whose stop reason ends the message; in `message_start` it does not."""


class Anthropic(Dialect):
    """The dialect `anthropic`."""

    name = "anthropic"
    volatile_json_paths = ("$.metadata.user_id",)
    cassette_key_headers = ("anthropic-beta",)
    id_json_paths = (
        "$.messages[*].id",
        "$.messages[*].content[*].id",
        "$.messages[*].content[*].tool_use_id",
    )
    token_counting = TokenCounting(cache_is_input=False)
    overloaded_status = 529
    metadata_names = MetadataNames(("anthropic",), "anthropic")

    def matches(self, request: Request) -> bool:
        """Messages, their token counts and completions; models only with the version header.

        A bare `/messages` is the AI SDK's; below other paths, such as a thread of OpenAI's
        Assistants API, the header is required.
        """
        if request.method == "GET":
            return _MODELS_PATH.fullmatch(request.path) is not None and _has_version_header(request)
        if request.method != "POST":
            return False
        if _ENDPOINT_PATH.fullmatch(request.path) or _VERTEX_PATH.fullmatch(request.path):
            return True
        return _MESSAGES_PATH_ANYWHERE.fullmatch(request.path) is not None and _has_version_header(
            request
        )

    def model(self, request: Request) -> str:
        """The body's `model`, else the one in the path (Vertex AI, the models endpoint)."""
        if model := get_text(parse_object(request.body), "model"):
            return model
        path_match = _MODEL_IN_PATH.search(request.path)
        return unquote(path_match[1]) if path_match else ""

    def streams(self, request: Request) -> bool:
        """Whether the body has `"stream": true`, or the path is Vertex AI's for streams."""
        has_stream_flag = parse_object(request.body).get("stream") is True
        return has_stream_flag or request.path.endswith(_VERTEX_STREAM_SUFFIX)

    def decode_request(self, request: Request) -> Conversation | None:
        """Decodes a Messages request, or on the legacy path a prompt; None for token counts."""
        body = parse_object(request.body)
        if not body or request.method != "POST" or _COUNT_TOKENS_PATH.search(request.path):
            return None
        is_legacy = request.path.endswith(_COMPLETION_SUFFIX)
        return (
            request_decoder.decode_completion_request(body)
            if is_legacy
            else request_decoder.decode_messages_request(body)
        )

    def completeness(self, response: DialectResponse) -> Completeness:
        """Complete with `message_stop`, with a stop reason, or with an error in the stream."""
        if response.codec_name != "sse" or not json_api.succeeded(response.head):
            return json_api.completeness(response)
        # by the last relevant event: a new message after `message_stop` needs its own
        for fields in map(_parse_event_payload, reversed(response.framed_messages)):
            kind = messages.response_payload_kind(fields)
            if kind == "error":
                return json_api.completed_by_error(messages.decode_failure(fields))
            if kind == "message_stop":
                return Completeness(is_complete=True, reason="message_stop")
            if kind in _ENDING_KINDS and (reason := messages.stop_reason(fields)):
                return Completeness(is_complete=True, reason=f"stop_reason: {reason}")
            if kind == "completion":
                return Completeness(is_complete=False, reason="no stop_reason")
            if kind in messages.MESSAGE_KINDS:
                return Completeness(is_complete=False, reason=f"no message_stop after {kind}")
        is_empty = not json_api.joined_body(response).strip()
        return Completeness(
            is_complete=False, reason="empty stream" if is_empty else "no message_stop"
        )

    def decode_response(self, response: DialectResponse) -> tuple[Turn, ...]:
        """One turn; none for responses without a message (token counts, models).

        The turn of an HTTP error has the request id that Anthropic's support needs.
        """
        if not json_api.succeeded(response.head):
            fields = parse_object(json_api.joined_body(response))
            failure = json_api.decode_http_error(response)
            code = failure.code or messages.decode_failure(fields).code
            metadata = select_metadata(fields, (other_responses.REQUEST_ID,))
            return (Turn((), failure=replace(failure, code=code), metadata=metadata),)
        decoder = messages.MessagesResponseDecoder()
        if response.codec_name == "sse":
            for message in response.framed_messages:
                decoder.feed(_parse_event_payload(message))
        else:
            decoder.feed(parse_object(json_api.joined_body(response)))
        return decoder.turns()

    def output_chars(self, codec: str, message: bytes) -> int:
        """The characters of a delta."""
        if codec != "sse":
            return 0
        return messages.event_output_chars(_parse_event_payload(message))

    def keep_alive_message(self, codec: str) -> bytes:
        """The event `ping`, which may occur anywhere in a stream."""
        return _PING_EVENT if codec == "sse" else b""

    def error_body(self, status: int, kind: str, message: str) -> bytes:
        """The format from which the SDKs read type and message."""
        return orjson.dumps(other_responses.error_document(Failure(message, kind)))

    def sample_request(self, model: str, *, stream: bool) -> Request:
        """A Messages request, with the API version that every client sends."""
        body = {"model": model, "max_tokens": _SAMPLE_MAX_TOKENS, "messages": [], "stream": stream}
        return response_encoding.json_post_request(
            "/v1/messages", body, ((_VERSION_HEADER, "2023-06-01"),)
        )

    def wire_format(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> WireFormat:
        """That of a message, or on the legacy path of a completion."""
        stream = self.streams(request)
        if request.path.endswith(_COMPLETION_SUFFIX):
            return messages.completion_wire_format(stream=stream)
        is_vertex = _VERTEX_PATH.fullmatch(request.path)
        return messages.wire_format(stream=stream, id_prefix="msg_vrtx_" if is_vertex else "msg_")

    def encode_turns(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> DialectResponse:
        """Events up to `message_stop` with one `ping`, or one document."""
        [turn] = turns
        request_id = other_responses.turn_request_id(turn, context)
        headers = other_responses.common_response_headers(context, request_id)
        is_completion = request.path.endswith(_COMPLETION_SUFFIX)
        if not self.streams(request):
            if is_completion:
                [document] = messages.encode_completion_events(turn, encoding.one_piece)
            else:
                document = messages.encode_message(turn, context)
            return response_encoding.json_response(document, headers)
        if is_completion:
            events = [*messages.encode_completion_events(turn, context.split_text)]
            ping_follows = "completion"
        else:
            events = [*messages.encode_events(turn, context)]
            is_vertex = _VERTEX_PATH.fullmatch(request.path)
            ping_follows = "message_start" if is_vertex else "content_block_start"
        types = [event["type"] for event in events]
        if ping_follows in types[:-1]:
            events.insert(types.index(ping_follows) + 1, {"type": "ping"})
        if turn.failure:
            events.append(other_responses.stream_error_event(turn.failure, request_id))
        stream_messages = (
            sse.encode_event(response_encoding.single_line_json(event), event["type"])
            for event in events
        )
        return response_encoding.stream_response(
            "sse", _EVENT_STREAM_TYPE, stream_messages, (("Cache-Control", "no-cache"), *headers)
        )

    def error_response_of_turn(self, turn: Turn, context: EncodeContext) -> DialectResponse:
        """The error, with the request id of the turn's metadata."""
        failure = turn.failure or Failure("")
        request_id = other_responses.turn_request_id(turn, context)
        return other_responses.error_response(
            other_responses.status_of(failure), failure, context, request_id=request_id
        )

    def error_response(
        self,
        status: int,
        failure: Failure,
        context: EncodeContext,
        retry_after: float | None = None,
    ) -> DialectResponse:
        """An error in the format from which the SDKs read type and message."""
        return other_responses.error_response(status, failure, context, retry_after)

    def rate_limit_headers(self, context: EncodeContext) -> Headers:
        """The limits of requests and tokens."""
        return other_responses.rate_limit_headers(context)

    def auxiliary_response(
        self, request: Request, context: EncodeContext
    ) -> DialectResponse | None:
        """Token counts, the list of models, and one model."""
        if request.method == "GET":
            name = self.model(request)
            if name:
                return other_responses.model_info_response(name, context)
            return other_responses.models_page_response(request.query, context)
        if _COUNT_TOKENS_PATH.search(request.path):
            return other_responses.count_tokens_response(parse_object(request.body), context)
        return None


def _has_version_header(request: Request) -> bool:
    return header_value(request.headers, _VERSION_HEADER) is not None


def _parse_event_payload(message: bytes) -> Fields:
    """The document of one event; its type defaults to the event's name."""
    event = sse.parse_event(message)
    if event.data is None:
        return parse_object(message)  # a bare document labelled as a stream
    fields, data = parse_object(event.data), event.data.strip()
    if not fields and (not data or (data.startswith(b"{") and data != b"{}")):
        return fields  # a truncated object, and not the plain text of an error
    if event.event_type == "error" and not fields.get("error"):
        return {"type": "error", "error": dict(fields) or event.data.decode("utf-8", "replace")}
    return fields if fields.get("type") else {**fields, "type": event.event_type}
