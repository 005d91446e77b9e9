"""The dialect `cohere`: chat in versions 2 and 1, completions, and single-document endpoints.

Version 2 streams SSE: typed events up to `message-end`, then `data: [DONE]`.  Version 1 streams
NDJSON up to a line with `"is_finished": true`, or the same as SSE where the request accepts that.
That last event holds the error of a stream; an HTTP error is `{"message": ...}`.

Other providers share some paths (Writer's `/v1/chat`, Jina's `/v1/rerank`, KoboldAI's
`/api/v1/generate`), so most requests match only by a field or header that is Cohere's own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import orjson

from llm_proxy import framing
from llm_proxy.conversation import Conversation
from llm_proxy.dialects import json_api, response_encoding
from llm_proxy.dialects.base import Completeness, Dialect, DialectResponse, MetadataNames
from llm_proxy.dialects.cohere import auxiliary_responses, chat_v1, chat_v2, requests
from llm_proxy.dialects.encoding import EncodeContext
from llm_proxy.dialects.lenient_json import Fields, get_object, parse_object
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.dialects.wire import Errors, WireFormat
from llm_proxy.errors import NotRepresentable
from llm_proxy.exchange import Headers, Request, ResponseHead, header_value
from llm_proxy.framing import sse
from llm_proxy.turns import Failure, Part, Turn

_V2_CHAT: Final = "v2/chat"
_PATH: Final = re.compile(r"(?P<before>/.*)?/(?P<operation>v[12]/[a-z]+)")
_MODELS_PATH: Final = re.compile(r"/v1/models(/[^/]+)?")

_DISTINCTIVE_FIELDS: Final = {
    "v1/chat": ("message",),
    "v1/generate": ("prompt",),
    "v1/embed": ("texts", "images"),
    "v1/rerank": (),
    "v1/tokenize": ("text",),
    "v1/detokenize": ("tokens",),
    "v1/classify": (),
    "v1/summarize": (),
    "v2/embed": ("texts", "images", "inputs"),
    "v2/rerank": ("documents",),
}
"""By operation, the fields that only Cohere's requests have; empty where no field is unique."""

_V1_FINAL_EVENT_TYPES: Final = (None, chat_v1.END_EVENT, "stream-error")
"""Types of events that end a stream of version 1; old servers send no type.

Events of other types may be finished too, without ending the stream."""

_STREAM_CODECS: Final = ("sse", "ndjson")

_V1_RESPONSE_FIELDS: Final = frozenset(
    ("event_type", "is_finished", "generation_id", "generations", "response_id")
)
_V2_RESPONSE_FIELDS: Final = frozenset(("delta", "message", "finish_reason", "error"))
"""A document with no field of either set holds no turn."""

_NOT_FOUND_MESSAGE: Final = (
    "not found, make sure the correct model ID was used and that you have access to the model."
)
_ERRORS: Final = Errors(
    {
        400: Failure("invalid request"),
        401: Failure("no valid api key was given"),
        402: Failure("the account has no payment method"),
        403: Failure("the api key has no permission for this request"),
        404: Failure(f"model {_NOT_FOUND_MESSAGE}"),
        422: Failure("the request cannot be processed"),
        429: Failure("too many requests"),
        498: Failure("invalid token"),
        499: Failure("the request was cancelled"),
        500: Failure("internal server error"),
        501: Failure("not implemented"),
        503: Failure("the service is unavailable"),
        504: Failure("the request took too long"),
    },
    {"TOO_MANY_TOKENS": 400, "INVALID_TOOL_GENERATION": 422},
)


_REQUEST_DECODERS: Final = {
    _V2_CHAT: requests.decode_request,
    "v1/chat": chat_v1.decode_request,
    "v1/generate": chat_v1.decode_completion_request,
}
"""By operation, the decoder of a body."""


class _ResponseDecoder:
    """Decodes a response in the version of its first document that holds a turn."""

    def __init__(self, *, streamed: bool) -> None:
        self._is_streamed = streamed
        self._v1: chat_v1.TurnsDecoder | None = None
        self._v2: chat_v2.TurnDecoder | None = None

    def feed(self, message: bytes) -> list[Part]:
        """Decode an event, or the body of a response that does not stream."""
        document = _decode_event(message) if self._is_streamed else parse_object(message)
        if self._v1 is None and self._v2 is None:
            if not _V1_RESPONSE_FIELDS.isdisjoint(document):
                self._v1 = chat_v1.TurnsDecoder()
            elif not _V2_RESPONSE_FIELDS.isdisjoint(document):
                self._v2 = chat_v2.TurnDecoder(streamed=self._is_streamed)
        decoder = self._v1 or self._v2
        return decoder.feed(document) if decoder else []

    def turns(self) -> tuple[Turn, ...]:
        """The turns so far; none without a document that holds one."""
        if self._v2 is not None:
            return (self._v2.turn(),)
        return () if self._v1 is None else self._v1.turns()


class Cohere(Dialect):
    """The dialect `cohere`."""

    name = "cohere"
    id_json_paths = (
        "$.messages[*].tool_calls[*].id",
        "$.messages[*].tool_call_id",
    )
    tool_result_json_paths = (
        "$.messages[role=tool].content",
        "$.tool_results[*].outputs",
        "$.chat_history[*].tool_results[*].outputs",
    )
    """In both versions."""
    errors = _ERRORS
    metadata_names = MetadataNames(("cohere",), "openai")

    def matches(self, request: Request) -> bool:
        """`.../v2/chat`; other paths only where the request cannot be another provider's."""
        if request.method == "GET":
            return _MODELS_PATH.fullmatch(request.path) is not None and _has_cohere_client_header(
                request
            )
        path = _PATH.fullmatch(request.path)
        if request.method != "POST" or path is None:
            return False
        path_prefix, operation = path["before"] or "", path["operation"]
        if operation == _V2_CHAT:
            return True
        if operation not in _DISTINCTIVE_FIELDS or (path_prefix and "cohere" not in path_prefix):
            return False
        fields = parse_object(request.body)
        return (
            bool(path_prefix)
            or _has_cohere_client_header(request)
            or any(name in fields for name in _DISTINCTIVE_FIELDS[operation])
        )

    def decode_request(self, request: Request) -> Conversation | None:
        """A chat of either version, or a completion."""
        body = parse_object(request.body)
        if not body or request.method != "POST":
            return None
        decode = _REQUEST_DECODERS.get(_operation_of(request))
        return replace(decode(body), model=self.model(request)) if decode else None

    def encode_request(
        self, conversation: Conversation, *, stream: bool = True, provider: str = ""
    ) -> Request:
        """The request to `/v2/chat`, with an explicit `stream`."""
        return requests.encode_request(conversation, stream=stream)

    def codec_name(self, request: Request, head: ResponseHead) -> str:
        """By content type; where a streamed response has none, by the request's API version."""
        if not json_api.succeeded(head):
            return "whole"
        content_type = header_value(head.headers, "content-type")
        if content_type or not self.streams(request):
            return framing.codec_name_for_content_type(content_type)
        return "sse" if request.path.endswith(_V2_CHAT) else "ndjson"

    def completeness(self, response: DialectResponse) -> Completeness:
        """By the last event of a stream, which may hold an error, or by `[DONE]`."""
        if response.codec_name not in _STREAM_CODECS or not json_api.succeeded(response.head):
            return json_api.completeness(response)
        done = False
        for message in reversed(response.framed_messages):
            done = done or sse.is_done_message(message)
            if event_completeness := _event_completeness(_decode_event(message)):
                return event_completeness
        if done:
            return Completeness(is_complete=True, reason=sse.DONE_DATA.decode())
        return json_api.incomplete(response, "no final event")

    def decode_response(self, response: DialectResponse) -> tuple[Turn, ...]:
        """One turn, or one per generation of a completion; none for auxiliary responses."""
        if not json_api.succeeded(response.head):
            fields = parse_object(response.body)
            failure = chat_v2.decode_failure(fields) or json_api.decode_http_error(response)
            return (Turn((), failure=failure),)
        return json_api.decoded_turns(self.response_decoder(response.codec_name), response)

    def response_decoder(self, codec_name: str) -> _ResponseDecoder:
        """A decoder of events of either version, or of the document of a response."""
        return _ResponseDecoder(streamed=codec_name in _STREAM_CODECS)

    def output_chars(self, codec: str, message: bytes) -> int:
        """The output characters of an event of either version."""
        if codec not in _STREAM_CODECS:
            return 0
        event = _decode_event(message)
        return chat_v2.event_output_chars(event) or chat_v1.event_output_chars(event)

    def error_body(self, status: int, kind: str, message: str) -> bytes:
        """A `message`, which every client prints, with its type."""
        return orjson.dumps({"message": message, "error_type": kind})

    def sample_request(self, model: str, *, stream: bool) -> Request:
        """A chat of version 2."""
        return response_encoding.json_post_request(
            f"/{_V2_CHAT}", {"model": model, "stream": stream, "messages": []}
        )

    def wire_format(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> WireFormat:
        """That of chats of version 2: other responses are not encoded."""
        if (operation := _operation_of(request)) != _V2_CHAT:
            raise NotRepresentable(
                f"cohere: cannot generate a response for /{operation}; use /{_V2_CHAT}"
            )
        return chat_v2.wire_format(stream=self.streams(request))

    def encode_turns(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> DialectResponse:
        """Events up to `[DONE]`, or one document."""
        [turn] = turns
        if not self.streams(request):
            return self._json_response(chat_v2.encode_document(turn), context)
        messages = [
            *(
                sse.encode_event(response_encoding.single_line_json(event), event["type"])
                for event in chat_v2.encode_events(turn, context)
            ),
            sse.encode_event(sse.DONE_DATA),
        ]
        headers = self._common_headers(context)
        return response_encoding.stream_response("sse", sse.CONTENT_TYPE, messages, headers)

    def error_response(
        self,
        status: int,
        failure: Failure,
        context: EncodeContext,
        retry_after: float | None = None,
    ) -> DialectResponse:
        """A message, with its type if it has one; when to retry is in s and in ms."""
        error = _ERRORS.with_defaults(failure, status)
        body: Document = {"id": context.fake_uuid("error"), "message": error.message}
        if error.type:
            body = {"error_type": error.type, **body}
        delay = response_encoding.retry_headers(retry_after, "Retry-After", "Retry-After-Ms")
        return self._json_response(body, context, delay, status)

    def rate_limit_headers(self, context: EncodeContext) -> Headers:
        """The account's limit of requests."""
        limits = context.account_limits
        if limits is None or limits.request_window is None:
            return ()
        return (
            ("X-Trial-Endpoint-Call-Limit", str(limits.request_window.limit)),
            ("X-Trial-Endpoint-Call-Remaining", str(limits.request_window.remaining)),
        )

    def auxiliary_response(
        self, request: Request, context: EncodeContext
    ) -> DialectResponse | None:
        """Embeddings, rerankings, tokens and models; 404 for unknown models, else 501."""
        if request.method == "GET":
            name = request.path.rpartition("/v1/models")[2].removeprefix("/")
            if name and context.models and name not in context.models:
                failure = Failure(f"model '{name}' {_NOT_FOUND_MESSAGE}")
                return self.error_response(404, failure, context)
            return self._json_response(auxiliary_responses.models(name, context), context)
        operation = _operation_of(request)
        if operation in (_V2_CHAT, "v1/chat", "v1/generate"):
            return None
        fields = parse_object(request.body)
        if document := auxiliary_responses.operation_result(operation, fields, context):
            return self._json_response(document, context)
        return self.error_response(501, Failure(f"/{operation} is not supported"), context)

    def _json_response(
        self, document: Document, context: EncodeContext, headers: Headers = (), status: int = 200
    ) -> DialectResponse:
        all_headers = (*self._common_headers(context), *headers)
        return response_encoding.json_response(document, all_headers, status)

    def _common_headers(self, context: EncodeContext) -> Headers:
        """The headers of every response: a trace id, and the limit of requests."""
        trace = ("X-Debug-Trace-Id", context.fake_uuid("trace").replace("-", ""))
        return (trace, *self.rate_limit_headers(context))


def _operation_of(request: Request) -> str:
    """The operation of a path without a gateway's prefix: `v2/chat`."""
    path = _PATH.fullmatch(request.path)
    return path["operation"] if path else request.path.removeprefix("/")


def _has_cohere_client_header(request: Request) -> bool:
    """Whether a header identifies a client of Cohere."""
    client_names = (
        header_value(request.headers, name) or "" for name in ("user-agent", "x-fern-sdk-name")
    )
    version = header_value(request.headers, "cohere-version")
    return version is not None or any("cohere" in name.lower() for name in client_names)


def _event_completeness(event: Fields) -> Completeness | None:
    fields = get_object(event, "delta") or event
    if failure := chat_v2.decode_failure(fields):
        return json_api.completed_by_error(failure)
    if event.get("type") == chat_v2.END_EVENT:
        return Completeness(is_complete=True, reason=chat_v2.END_EVENT)
    if event.get("is_finished") is True and event.get("event_type") in _V1_FINAL_EVENT_TYPES:
        return Completeness(is_complete=True, reason="is_finished: true")
    return None


def _decode_event(message: bytes) -> Fields:
    """The document of a line or an SSE event; the event's name stands in for a missing type."""
    event = sse.parse_event(message)
    if event.data is None:
        return parse_object(message)  # NDJSON
    document = parse_object(event.data)
    if event.event_type == "error" and not chat_v2.decode_failure(document):
        return {"error": dict(document) or event.data.decode("utf-8", "replace")}
    if event.event_type and document and "type" not in document:
        return {**document, "type": event.event_type}
    return document
