"""The dialect `anthropic`: the Messages API on any host, and legacy text completions.

A stream is SSE with event names; `message_stop` is its last event, and nothing like `[DONE]`
follows.  Servers that leave it out have said why they stop in `message_delta`, after which a
message has no more to say; a legacy completion ends in the event with its `stop_reason`.  An
event named `error` ends either for good.

Batches and files are left to HTTP without a dialect, whose errors have Anthropic's shape too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final
from urllib.parse import unquote

import orjson

from llm_proxy.conversation import Conversation
from llm_proxy.dialects import conversion, json_api, lenient_json, response_encoding
from llm_proxy.dialects.anthropic import auxiliary_responses, errors, request_decoder
from llm_proxy.dialects.anthropic import response_encoder as spoken
from llm_proxy.dialects.anthropic.errors import REQUEST_ID
from llm_proxy.dialects.anthropic.message_decoder import (
    MessagesDecoder,
    decode_failure,
    document_kind,
    event_output_chars,
    stop_reason,
)
from llm_proxy.dialects.anthropic.response_encoder import AnthropicResponseOptions
from llm_proxy.dialects.base import Completeness, DialectResponse
from llm_proxy.dialects.conversion import ConvertedTurns
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.exchange import Headers, Request, ResponseHead, header_value
from llm_proxy.framing.sse import parse_event
from llm_proxy.turns import Failure, TokenCounting, Turn

_VERSION: Final = "anthropic-version"
"""The header that every client of Anthropic's sends, and nobody else."""

_MOST: Final = 4096
"""Tokens that a typical request allows."""

_PING: Final = b'event: ping\ndata: {"type": "ping"}\n\n'

_BASE: Final = r"(?:.*/v1|.*/anthropic|)"
_PATH: Final = re.compile(_BASE + r"/(?:messages(?:/count_tokens)?|complete)")
_ANYWHERE: Final = re.compile(r".*/messages(?:/count_tokens)?")
_VERTEX: Final = re.compile(r".*/publishers/anthropic/models/[^/]+:(?:rawP|streamRawP)redict")
_MODELS: Final = re.compile(_BASE + r"/models(?:/[^/]+)?")
_COUNTS: Final = re.compile(r"/(?:messages/count_tokens|models/count-tokens:rawPredict)$")
_LEGACY: Final = "/complete"
_STREAMED: Final = ":streamRawPredict"
_NAMED: Final = re.compile(r"/models/([^/]+?)(?::rawPredict|:streamRawPredict)?$")

_OF_MESSAGE: Final = frozenset(
    (
        "message",
        "message_start",
        "message_delta",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
    )
)
_ENDS: Final = frozenset(("message", "message_delta", "completion"))
"""What a stop reason ends; that of `message_start` stands before the end."""


class Anthropic:
    """The dialect `anthropic`."""

    name = "anthropic"
    volatile_paths = ("$.metadata.user_id",)
    key_headers = ("anthropic-beta",)
    id_paths = (
        "$.messages[*].id",
        "$.messages[*].content[*].id",
        "$.messages[*].content[*].tool_use_id",
    )
    token_counting = TokenCounting(cache_is_input=False)
    overloaded_status = 529

    def matches(self, request: Request) -> bool:
        """Messages, their token counts and completions; and the models, where the header tells.

        A bare `/messages` is the AI SDK's; below other paths, such as that of a thread of
        OpenAI's assistants, it takes the header.
        """
        if request.method == "GET":
            return _MODELS.fullmatch(request.path) is not None and _has_version_header(request)
        if request.method != "POST":
            return False
        if _PATH.fullmatch(request.path) or _VERTEX.fullmatch(request.path):
            return True
        return _ANYWHERE.fullmatch(request.path) is not None and _has_version_header(request)

    def model(self, request: Request) -> str:
        """The body's `model`, else the one that the path names (Vertex, the list of models)."""
        if text := lenient_json.printable_text(
            lenient_json.parse_object(request.body).get("model")
        ):
            return text
        named = _NAMED.search(request.path)
        return unquote(named[1]) if named else ""

    def streams(self, request: Request) -> bool:
        """Where the body says `"stream": true`, or Vertex's path says so."""
        flag = lenient_json.parse_object(request.body).get("stream") is True
        return flag or request.path.endswith(_STREAMED)

    def decode_request(self, request: Request) -> Conversation | None:
        """A message, or on the legacy path a prompt."""
        body = lenient_json.parse_object(request.body)
        if not body or request.method != "POST" or _COUNTS.search(request.path):
            return None
        is_legacy = request.path.endswith(_LEGACY)
        return (
            request_decoder.decode_completion_request(body)
            if is_legacy
            else request_decoder.decode_messages_request(body)
        )

    def codec(self, request: Request, head: ResponseHead) -> str:
        """Events by content type; where a streamed response has none, by what was asked for."""
        return json_api.codec_of_events_or_whole(head, streams=self.streams(request))

    def completeness(self, response: DialectResponse) -> Completeness:
        """Whole by `message_stop`, by its stop reason, or by an error in the stream."""
        if response.codec != "sse" or not json_api.succeeded(response.head):
            return json_api.completeness(response)
        return _stream_completeness(response)

    def decode(self, response: DialectResponse) -> tuple[Turn, ...]:
        """One turn; none where nothing is said (token counts, models)."""
        if not json_api.succeeded(response.head):
            return (_decode_http_error(response),)
        messages = MessagesDecoder()
        for document in _parse_documents(response):
            messages.feed(document)
        return messages.result()

    def output_chars(self, codec: str, message: bytes) -> int:
        """What a delta says."""
        return event_output_chars(_parse_event(message)) if codec == "sse" else 0

    def keep_alive_message(self, codec: str) -> bytes:
        """The event `ping`, which may stand anywhere in a stream."""
        return _PING if codec == "sse" else b""

    def error_body(self, status: int, kind: str, message: str) -> bytes:
        """The shape whose type and message the SDKs read."""
        return orjson.dumps(errors.error_document(errors.error_fields(Failure(message, kind))))

    def sample_request(self, model: str, *, stream: bool) -> Request:
        """A message, in the version that every client knows."""
        body = {"model": model, "max_tokens": _MOST, "messages": [], "stream": stream}
        return response_encoding.json_post_request(
            "/v1/messages", body, ((_VERSION, "2023-06-01"),)
        )

    def convert(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> ConvertedTurns:
        """As a message, or on the legacy path as text."""
        words = spoken.capabilities(self._response_options(request), context)
        return conversion.convert(turns, words, self.model(request), context)

    def encode(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> DialectResponse:
        """Events up to `message_stop`, or one document."""
        (turn,) = self.convert(request, turns, context).turns
        return spoken.encode_response(turn, self._response_options(request), context)

    def error_response(
        self,
        status: int,
        failure: Failure,
        context: EncodeContext,
        retry_after: float | None = None,
    ) -> DialectResponse:
        """In the shape whose type and message the SDKs read."""
        return errors.error_response(status, failure, context, retry_after)

    def rate_limit_headers(self, context: EncodeContext) -> Headers:
        """Of requests and tokens."""
        return errors.rate_limit_headers(context)

    def auxiliary_response(
        self, request: Request, context: EncodeContext
    ) -> DialectResponse | None:
        """Counts of tokens, models, and a model."""
        if request.method == "GET":
            name = self.model(request)
            if name:
                return auxiliary_responses.model_response(name, context)
            return auxiliary_responses.models_page(request.query, context)
        if _COUNTS.search(request.path):
            return auxiliary_responses.count_tokens(
                lenient_json.parse_object(request.body), context
            )
        return None

    def _response_options(self, request: Request) -> AnthropicResponseOptions:
        return AnthropicResponseOptions(
            stream=self.streams(request),
            legacy=request.path.endswith(_LEGACY),
            vertex=_VERTEX.fullmatch(request.path) is not None,
        )


def _has_version_header(request: Request) -> bool:
    return header_value(request.headers, _VERSION) is not None


def _stream_completeness(response: DialectResponse) -> Completeness:
    """By the last event that tells; what began after a `message_stop` needs one of its own."""
    for fields in map(_parse_event, reversed(response.messages)):
        label = document_kind(fields)
        if label == "error":
            return json_api.completeness_by_error(decode_failure(fields))
        if label == "message_stop":
            return Completeness(is_complete=True, reason="message_stop")
        if label in _ENDS and (reason := stop_reason(fields)):
            return Completeness(is_complete=True, reason=f"stop_reason: {reason}")
        if label == "completion":
            return Completeness(is_complete=False, reason="no stop_reason")
        if label in _OF_MESSAGE:
            return Completeness(is_complete=False, reason=f"no message_stop after {label}")
    is_empty = not json_api.joined_body(response).strip()
    return Completeness(is_complete=False, reason="empty stream" if is_empty else "no message_stop")


def _parse_documents(response: DialectResponse) -> Iterable[Fields]:
    if response.codec == "sse":
        return map(_parse_event, response.messages)
    return [lenient_json.parse_object(json_api.joined_body(response))]


def _parse_event(message: bytes) -> Fields:
    """The document of one event, which has the event's name for a type where it has none."""
    event = parse_event(message)
    if event.data is None:
        return lenient_json.parse_object(message)  # a bare document labelled as a stream
    fields = lenient_json.parse_object(event.data)
    if not fields and _is_truncated_object(event.data):
        return fields
    if event.encode_event == "error" and not fields.get("error"):
        return {"type": "error", "error": dict(fields) or event.data.decode("utf-8", "replace")}
    return fields if fields.get("type") else {**fields, "type": event.encode_event}


def _is_truncated_object(data: bytes) -> bool:
    """Whether this was to be an object; other errors than objects are in words."""
    data = data.strip()
    return not data or (data.startswith(b"{") and data != b"{}")


def _decode_http_error(response: DialectResponse) -> Turn:
    """What an HTTP error says, with the request id that Anthropic's support asks for."""
    fields = lenient_json.parse_object(json_api.joined_body(response))
    found = json_api.decode_http_error(response)
    return Turn(
        (),
        failure=replace(found, code=found.code or decode_failure(fields).code),
        metadata=lenient_json.named_metadata(fields, (REQUEST_ID,)),
    )
