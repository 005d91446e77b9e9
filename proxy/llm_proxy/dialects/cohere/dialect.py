"""The dialect `cohere`: chat in versions 2 and 1, completions, and single-document endpoints.

Version 2 streams SSE: typed events up to `message-end`, then `data: [DONE]`.  Version 1 streams
lines of JSON up to one with `"is_finished": true`, or the same as SSE where it was asked to.
An error in a stream stands in that last event; beside an HTTP error it is `{"message": ...}`.

Others have paths of the same name (Writer's `/v1/chat`, Jina's `/v1/rerank`, KoboldAI's
`/api/v1/generate`), so most requests must show by their body or headers that they are Cohere's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

import orjson

from llm_proxy import framing
from llm_proxy.conversation import Conversation
from llm_proxy.dialects import (
    conversion,
    json_api,
    lenient_json,
    request_decoding,
    response_encoding,
)
from llm_proxy.dialects.base import Completeness, DialectResponse
from llm_proxy.dialects.capabilities import Capabilities
from llm_proxy.dialects.cohere import (
    auxiliary_responses,
    errors,
    request_decoder,
    shared_fields,
    v1_capabilities,
    v1_decoder,
    v2_capabilities,
    v2_decoder,
)
from llm_proxy.dialects.cohere.v1_encoder import CohereV1Encoder
from llm_proxy.dialects.cohere.v2_encoder import CohereV2Encoder
from llm_proxy.dialects.conversion import ConvertedTurns
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.errors import NotRepresentable
from llm_proxy.exchange import Headers, Request, ResponseHead, header_value
from llm_proxy.framing import sse
from llm_proxy.turns import Failure, TokenCounting, Turn

_CHAT: Final = "v2/chat"
_OLD_CHAT: Final = "v1/chat"
_COMPLETION: Final = "v1/generate"
_PATH: Final = re.compile(r"(?P<before>/.*)?/(?P<operation>v[12]/[a-z]+)")
_MODELS: Final = re.compile(r"/v1/models(/[^/]+)?")

_TELLING: Final = {
    _OLD_CHAT: ("message",),
    _COMPLETION: ("prompt",),
    "v1/embed": ("texts", "images"),
    "v1/rerank": (),
    "v1/tokenize": ("text",),
    "v1/detokenize": ("tokens",),
    "v1/classify": (),
    "v1/summarize": (),
    "v2/embed": ("texts", "images", "inputs"),
    "v2/rerank": ("documents",),
}
"""The fields that tell each operation from others' of its path; none where nothing in it does."""

_ENDS: Final = (None, v1_decoder.END, "stream-error")
"""Events that finish a stream of version 1; old servers have no types, others finish less."""

_STREAMED: Final = ("sse", "ndjson")

_OF_VERSION_1: Final = frozenset(
    ("event_type", "is_finished", "generation_id", "generations", "response_id")
)
_OF_VERSION_2: Final = frozenset(("delta", "message", "finish_reason", "error"))
"""A document with none of these fields is no answer in words."""


class Cohere:
    """The dialect `cohere`."""

    name = "cohere"
    volatile_paths: tuple[str, ...] = ()
    key_headers: tuple[str, ...] = ()
    id_paths = (
        "$.messages[*].tool_calls[*].id",
        "$.messages[*].tool_call_id",
    )
    token_counting = TokenCounting()
    overloaded_status = 503

    def matches(self, request: Request) -> bool:
        """`.../v2/chat`; other paths where they can be nobody else's."""
        if request.method == "GET":
            return _MODELS.fullmatch(request.path) is not None and _has_cohere_client_header(
                request
            )
        path = _PATH.fullmatch(request.path)
        if request.method != "POST" or path is None:
            return False
        before, operation = path["before"] or "", path["operation"]
        if operation == _CHAT:
            return True
        if operation not in _TELLING or (before and "cohere" not in before):
            return False
        fields = lenient_json.parse_object(request.body)
        return (
            bool(before) or _has_cohere_client_header(request) or _returns_turns(operation, fields)
        )

    def model(self, request: Request) -> str:
        """The body's `model`; version 1 has a default."""
        return lenient_json.printable_text(lenient_json.parse_object(request.body).get("model"))

    def streams(self, request: Request) -> bool:
        """Only where the body says `"stream": true`."""
        return lenient_json.parse_object(request.body).get("stream") is True

    def decode_request(self, request: Request) -> Conversation | None:
        """A chat of either version, or a prompt."""
        body = lenient_json.parse_object(request.body)
        if not body or request.method != "POST":
            return None
        match _operation_of(request):
            case operation if operation == _CHAT:
                return request_decoder.decode_v2_request(body)
            case operation if operation == _OLD_CHAT:
                return request_decoder.decode_v1_request(body)
            case operation if operation == _COMPLETION:
                settings = body.get("temperature"), body.get("p")
                return request_decoding.prompt_conversation(body.get("prompt"), *settings)
            case _:
                return None

    def codec(self, request: Request, head: ResponseHead) -> str:
        """By content type; where a streamed response has none, by the version asked for."""
        if not json_api.succeeded(head):
            return "whole"
        content_type = header_value(head.headers, "content-type")
        if content_type or not self.streams(request):
            return framing.codec_of_content_type(content_type)
        return "sse" if request.path.endswith(_CHAT) else "ndjson"

    def completeness(self, response: DialectResponse) -> Completeness:
        """Whole by the last event, which may hold an error, or by `[DONE]`."""
        if response.codec not in _STREAMED or not json_api.succeeded(response.head):
            return json_api.completeness(response)
        done = False
        for last in reversed(response.messages):
            done = done or sse.is_done(last)
            if judgement := _event_completeness(_decode_event(last)):
                return judgement
        if done:
            return Completeness(is_complete=True, reason=sse.DONE.decode())
        empty = not json_api.joined_body(response).strip()
        return Completeness(is_complete=False, reason="empty stream" if empty else "no last event")

    def decode(self, response: DialectResponse) -> tuple[Turn, ...]:
        """One turn, of completions one a generation; none for numbers and tokens."""
        if not json_api.succeeded(response.head):
            fields = lenient_json.parse_object(json_api.joined_body(response))
            failure = shared_fields.decode_failure(fields) or json_api.decode_http_error(response)
            return (Turn((), failure=failure),)
        documents = [*_parse_documents(response)]
        if any(not _OF_VERSION_1.isdisjoint(document) for document in documents):
            return v1_decoder.decode_turns(documents)
        if any(not _OF_VERSION_2.isdisjoint(document) for document in documents):
            return (v2_decoder.decode_turn(documents),)
        return ()

    def output_chars(self, codec: str, message: bytes) -> int:
        """What a delta says, of either version."""
        return _event_output_chars(_decode_event(message)) if codec in _STREAMED else 0

    def keep_alive_message(self, codec: str) -> bytes:
        """A comment, as gateways send it."""
        return sse.KEEP_ALIVE if codec == "sse" else b""

    def error_body(self, status: int, kind: str, message: str) -> bytes:
        """The shape whose message every client prints."""
        return orjson.dumps({"message": message, "error_type": kind})

    def sample_request(self, model: str, *, stream: bool) -> Request:
        """A chat of version 2."""
        return response_encoding.json_post_request(
            f"/{_CHAT}", {"model": model, "stream": stream, "messages": []}
        )

    def convert(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> ConvertedTurns:
        """In the words of either version's chats."""
        words = self._response_capabilities(request, context)
        return conversion.convert(turns, words, self.model(request), context)

    def encode(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> DialectResponse:
        """Events up to the last one, or one document."""
        (turn,) = self.convert(request, turns, context).turns
        stream = self.streams(request)
        if turn.failure and not stream:
            failure = next((turn.failure for turn in turns if turn.failure), turn.failure)
            return errors.error_response(errors.status_of_failure(failure), turn.failure, context)
        if _operation_of(request) == _CHAT:
            return CohereV2Encoder(stream, context).encode_response(turn)
        return CohereV1Encoder(request, stream, context).encode_response(turn)

    def error_response(
        self,
        status: int,
        failure: Failure,
        context: EncodeContext,
        retry_after: float | None = None,
    ) -> DialectResponse:
        """A message, with its type beside it where it has one."""
        return errors.error_response(status, failure, context, retry_after)

    def rate_limit_headers(self, context: EncodeContext) -> Headers:
        """Of calls."""
        return errors.rate_limit_headers(context)

    def auxiliary_response(
        self, request: Request, context: EncodeContext
    ) -> DialectResponse | None:
        """Embeddings, ranks, tokens, and models."""
        if request.method == "GET":
            return auxiliary_responses.models_response(request.path, context)
        operation = _operation_of(request)
        if operation in (_CHAT, _OLD_CHAT, _COMPLETION):
            return None
        return auxiliary_responses.auxiliary_response_of(operation, request, context)

    def _response_capabilities(self, request: Request, context: EncodeContext) -> Capabilities:
        stream = self.streams(request)
        operation = _operation_of(request)
        if operation == _CHAT:
            return v2_capabilities.capabilities(stream=stream)
        if operation == _OLD_CHAT:
            return v1_capabilities.capabilities(context.uuid("response"), stream=stream)
        raise NotRepresentable(f"cohere tells no turn on /{operation}")


def _operation_of(request: Request) -> str:
    """What is asked for, whatever a gateway puts in front: `v2/chat`."""
    path = _PATH.fullmatch(request.path)
    return path["operation"] if path else request.path.removeprefix("/")


def _returns_turns(operation: str, fields: Fields) -> bool:
    return any(name in fields for name in _TELLING[operation])


def _has_cohere_client_header(request: Request) -> bool:
    """Whether a client of Cohere's says so itself."""
    named = (
        header_value(request.headers, name) or "" for name in ("user-agent", "x-fern-sdk-name")
    )
    version = header_value(request.headers, "cohere-version")
    return version is not None or any("cohere" in name.lower() for name in named)


def _event_completeness(event: Fields) -> Completeness | None:
    fields = lenient_json.object_fields(event.get("delta")) or event
    if failure := shared_fields.decode_failure(fields):
        return json_api.completeness_by_error(failure)
    if event.get("type") == v2_decoder.END:
        return Completeness(is_complete=True, reason=v2_decoder.END)
    if event.get("is_finished") is True and event.get("event_type") in _ENDS:
        return Completeness(is_complete=True, reason="is_finished: true")
    return None


def _event_output_chars(event: Fields) -> int:
    return v2_decoder.event_output_chars(event) or v1_decoder.event_output_chars(event)


def _parse_documents(response: DialectResponse) -> Iterator[Fields]:
    if response.codec not in _STREAMED:
        return iter([lenient_json.parse_object(json_api.joined_body(response))])
    return map(_decode_event, response.messages)


def _decode_event(message: bytes) -> Fields:
    """The document of a line or an SSE event; the event's name stands in for a missing type."""
    event = sse.parse_event(message)
    if event.data is None:
        return lenient_json.parse_object(message)  # a line
    document = lenient_json.parse_object(event.data)
    if event.encode_event == "error" and not shared_fields.decode_failure(document):
        return {"error": dict(document) or event.data.decode("utf-8", "replace")}
    if event.encode_event and document and "type" not in document:
        return {**document, "type": event.encode_event}
    return document
