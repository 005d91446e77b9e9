"""The dialect `anthropic`: the Messages API on any host, and legacy text completions.

A stream is SSE with event names; `message_stop` is its last event, without a `[DONE]` after it.
Servers that omit it have sent the stop reason in `message_delta`, after which a message has no more
content; a legacy completion ends with the event that has a `stop_reason`.  An event named `error`
ends either.

Batches and files are left to the opaque dialect, whose errors have Anthropic's format, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from math import ceil
from typing import Final
from urllib.parse import parse_qs, unquote

import orjson

from llm_proxy.conversation import Conversation
from llm_proxy.dialects import estimates_and_fakes, json_api, response_encoding
from llm_proxy.dialects.anthropic import messages, requests
from llm_proxy.dialects.anthropic.messages import REQUEST_ID
from llm_proxy.dialects.anthropic.requests import VERSION_HEADER, VERSION_HEADERS
from llm_proxy.dialects.base import Completeness, Dialect, DialectResponse, MetadataNames
from llm_proxy.dialects.encoding import AccountLimits, EncodeContext
from llm_proxy.dialects.lenient_json import Fields, parse_object, select_metadata
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.dialects.wire import Errors, WireFormat
from llm_proxy.errors import NotRepresentable
from llm_proxy.exchange import Headers, Request, header_value
from llm_proxy.framing import sse
from llm_proxy.turns import Failure, Part, TokenCounting, Turn

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

_SAFE_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")
"""A request id that is safe in a header."""

_DEFAULTS: Final = {
    400: Failure("Invalid request", "invalid_request_error"),
    401: Failure("invalid x-api-key", "authentication_error"),
    402: Failure("Billing error", "billing_error"),
    403: Failure("Permission denied", "permission_error"),
    404: Failure("Not found", "not_found_error"),
    408: Failure("Request timed out", "timeout_error"),
    409: Failure("Conflict", "conflict_error"),
    413: Failure("Request exceeds the maximum size", "request_too_large"),
    429: Failure("Rate limited", "rate_limit_error"),
    503: Failure("Service unavailable", "api_error"),
    500: Failure("Internal server error", "api_error"),
    504: Failure("Request timed out", "timeout_error"),
    529: Failure("Overloaded", "overloaded_error"),
}
"""A type's status is the last that has it."""

_ERRORS: Final = Errors(_DEFAULTS, {failure.type: status for status, failure in _DEFAULTS.items()})

_INPUT_FIELDS: Final = ("system", "messages", "tools")
"""The request fields that the model reads."""

_TEXT_FIELDS: Final = ("text", "thinking", "content", "name", "title", "description")
_JSON_FIELDS: Final = ("input", "input_schema")

_DEFAULT_PAGE_SIZE: Final = 20
_MAX_PAGE_SIZE: Final = 1000


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
    tool_result_json_paths = ("$.messages[*].content[type=tool_result].content",)
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
        if model := super().model(request):
            return model
        path_match = _MODEL_IN_PATH.search(request.path)
        return unquote(path_match[1]) if path_match else ""

    def streams(self, request: Request) -> bool:
        """Whether the body has `"stream": true`, or the path is Vertex AI's for streams."""
        return super().streams(request) or request.path.endswith(_VERTEX_STREAM_SUFFIX)

    def decode_request(self, request: Request) -> Conversation | None:
        """Decodes a Messages request, or on the legacy path a prompt; None for token counts."""
        body = parse_object(request.body)
        if not body or request.method != "POST" or _COUNT_TOKENS_PATH.search(request.path):
            return None
        if request.path.endswith(_COMPLETION_SUFFIX):
            conversation = requests.decode_completion_request(body)
        else:
            conversation = requests.decode_request(body)
        return replace(conversation, model=self.model(request))

    def encode_request(
        self, conversation: Conversation, *, stream: bool = True, provider: str = ""
    ) -> Request:
        """The request to `/v1/messages`, with the API version as a header."""
        return requests.encode_request(conversation, stream=stream)

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
        return json_api.incomplete(response, "no message_stop")

    def decode_response(self, response: DialectResponse) -> tuple[Turn, ...]:
        """One turn; none for responses without a message (token counts, models).

        The turn of an HTTP error has the request id that Anthropic's support needs.
        """
        if not json_api.succeeded(response.head):
            fields = parse_object(response.body)
            failure = json_api.decode_http_error(response)
            code = failure.code or messages.decode_failure(fields).code
            metadata = select_metadata(fields, (REQUEST_ID,))
            return (Turn((), failure=replace(failure, code=code), metadata=metadata),)
        return json_api.decoded_turns(self.response_decoder(response.codec_name), response)

    def response_decoder(self, codec_name: str) -> _ResponseDecoder:
        """A decoder of events, or of the document of a response that does not stream."""
        return _ResponseDecoder(_parse_event_payload if codec_name == "sse" else parse_object)

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
        return orjson.dumps(_error_document(Failure(message, kind)))

    def sample_request(self, model: str, *, stream: bool) -> Request:
        """A Messages request, with the API version that every client sends."""
        body = {"model": model, "max_tokens": _SAMPLE_MAX_TOKENS, "messages": [], "stream": stream}
        return response_encoding.json_post_request("/v1/messages", body, VERSION_HEADERS)

    def wire_format(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> WireFormat:
        """That of a message."""
        if request.path.endswith(_COMPLETION_SUFFIX):
            raise NotRepresentable(
                "anthropic: cannot generate a response for /v1/complete; use /v1/messages"
            )
        is_vertex = _VERTEX_PATH.fullmatch(request.path)
        id_prefix = "msg_vrtx_" if is_vertex else "msg_"
        return messages.wire_format(stream=self.streams(request), id_prefix=id_prefix)

    def encode_turns(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> DialectResponse:
        """Events up to `message_stop` with one `ping`, or one document."""
        [turn] = turns
        request_id = _request_id(turn, context)
        headers = self._common_headers(context, request_id)
        if not self.streams(request):
            document = messages.encode_message(turn, context)
            return response_encoding.json_response(document, headers)
        events = [*messages.encode_events(turn, context)]
        is_vertex = _VERTEX_PATH.fullmatch(request.path)
        ping_follows = "message_start" if is_vertex else "content_block_start"
        types = [event["type"] for event in events]
        if ping_follows in types[:-1]:
            events.insert(types.index(ping_follows) + 1, {"type": "ping"})
        if turn.failure:
            status = _ERRORS.statuses.get(turn.failure.type, 500)
            error = _error_document(_ERRORS.with_defaults(turn.failure, status))
            error["error"] = {"details": None, **error["error"]}
            events.append({**error, REQUEST_ID: request_id})
        stream_messages = (
            sse.encode_event(response_encoding.single_line_json(event), event["type"])
            for event in events
        )
        return response_encoding.stream_response(
            "sse", _EVENT_STREAM_TYPE, stream_messages, (("Cache-Control", "no-cache"), *headers)
        )

    def error_response_of_turn(self, turn: Turn, context: EncodeContext) -> DialectResponse:
        """The error, with the request id of the turn's metadata; by its type, not by its code."""
        failure = turn.failure or Failure("")
        status = _ERRORS.statuses.get(failure.type, 500)
        return self._error_response(status, failure, context, _request_id(turn, context))

    def error_response(
        self,
        status: int,
        failure: Failure,
        context: EncodeContext,
        retry_after: float | None = None,
    ) -> DialectResponse:
        """An error in the format from which the SDKs read type and message."""
        headers = response_encoding.retry_headers(retry_after)
        request_id = _request_id(Turn(()), context)
        return self._error_response(status, failure, context, request_id, headers)

    def _error_response(
        self,
        status: int,
        failure: Failure,
        context: EncodeContext,
        request_id: str,
        headers: Headers = (),
    ) -> DialectResponse:
        body = {**_error_document(_ERRORS.with_defaults(failure, status)), REQUEST_ID: request_id}
        all_headers = (*self._common_headers(context, request_id), *headers)
        return response_encoding.json_response(body, all_headers, status)

    def rate_limit_headers(self, context: EncodeContext) -> Headers:
        """The limits of requests and tokens; none without a quota."""
        quota = context.account_limits or AccountLimits()
        return tuple(
            (f"anthropic-ratelimit-{label}-{name}", value)
            for label, window in quota.named_windows
            for name, value in (
                ("limit", str(window.limit)),
                ("remaining", str(window.remaining)),
                ("reset", _rfc3339_timestamp(context.created_unix_s + window.reset_s)),
            )
        )

    def _common_headers(self, context: EncodeContext, request_id: str) -> Headers:
        """The headers of every response: request id and rate limits."""
        return (("request-id", request_id), *self.rate_limit_headers(context))

    def auxiliary_response(
        self, request: Request, context: EncodeContext
    ) -> DialectResponse | None:
        """Token counts, the list of models, and one model.

        Every model exists if `context.models` is empty; an unknown one is HTTP 404.
        """
        if request.method == "GET":
            name = self.model(request)
            if name and context.models and name not in context.models:
                return self.error_response(404, Failure(f"model: {name}"), context)
            document = (
                _model_object(name, context) if name else _models_page(request.query, context)
            )
        elif _COUNT_TOKENS_PATH.search(request.path):
            body = parse_object(request.body)
            text = "".join(
                text
                for name in _INPUT_FIELDS
                for text in estimates_and_fakes.model_input_texts(
                    body.get(name), _TEXT_FIELDS, _JSON_FIELDS
                )
            )
            document = {"input_tokens": max(1, estimates_and_fakes.estimated_token_count(text))}
        else:
            return None
        headers = self._common_headers(context, _request_id(Turn(()), context))
        return response_encoding.json_response(document, headers)


class _ResponseDecoder:
    """Decodes the events of a stream, or the document of a body, with this parser."""

    def __init__(self, parse: Callable[[bytes], Fields]) -> None:
        self._parse = parse
        self._messages = messages.MessagesResponseDecoder()

    def feed(self, message: bytes) -> list[Part]:
        return self._messages.feed(self._parse(message))

    def turns(self) -> tuple[Turn, ...]:
        return self._messages.turns()


def _has_version_header(request: Request) -> bool:
    return header_value(request.headers, VERSION_HEADER) is not None


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


def _error_document(failure: Failure) -> Document:
    """The body of an error; its code is in `details.error_code`."""
    details = {"details": {"error_code": failure.code}} if failure.code else {}
    return {"type": "error", "error": {**details, "type": failure.type, "message": failure.message}}


def _request_id(turn: Turn, context: EncodeContext) -> str:
    """The request id in a failed turn's metadata, if safe in a header; else a fake one."""
    value = dict(turn.metadata).get(REQUEST_ID) if turn.failure else None
    if isinstance(value, str) and _SAFE_REQUEST_ID.fullmatch(value):
        return value
    return context.fake_identifier("req_")


def _rfc3339_timestamp(unix_s: float) -> str:
    """A time in s since 1970 (UTC), rounded up to seconds."""
    return datetime.fromtimestamp(ceil(unix_s), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _model_object(name: str, context: EncodeContext) -> Document:
    return {
        "type": "model",
        "id": name,
        "display_name": name,
        "created_at": _rfc3339_timestamp(context.created_unix_s),
        "lifecycle": "active",
    }


def _models_page(query: str, context: EncodeContext) -> Document:
    """The page of the model list for `limit`, `before_id` and `after_id` in the query.

    An invalid limit counts as absent.
    """
    fields = {name: values[-1] for name, values in parse_qs(query).items()}
    limit = fields.get("limit", "")
    requested_size = int(limit) if limit.isdecimal() and len(limit) < len("10000") else 0
    size = min(requested_size or _DEFAULT_PAGE_SIZE, _MAX_PAGE_SIZE)
    names, before, after = context.models, fields.get("before_id"), fields.get("after_id")
    if before in names:
        candidates = names[: names.index(before)]
        page = candidates[-size:]
    else:
        candidates = names[names.index(after) + 1 :] if after in names else names
        page = candidates[:size]
    return {
        "data": [_model_object(name, context) for name in page],
        "has_more": len(candidates) > size,
        "first_id": page[0] if page else None,
        "last_id": page[-1] if page else None,
    }
