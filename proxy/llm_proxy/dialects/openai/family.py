"""Shared by OpenAI's APIs and compatible providers: variants, models, errors, limits, events.

How providers deviate from OpenAI's wire format was observed in their responses: see
`docs/reference/dialects.md`.  A provider that is not listed behaves as OpenAI.

An error may replace an event: an event named `error` (Groq), an object of type `error` (vLLM),
a line `error: {...}` that is not SSE (GPUStack, old llama.cpp), or a bare JSON document with the
content type of a stream.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal
from urllib.parse import unquote

import orjson

from llm_proxy.dialects import response_encoding
from llm_proxy.dialects.base import Dialect, DialectResponse
from llm_proxy.dialects.encoding import AccountLimits, EncodeContext
from llm_proxy.dialects.lenient_json import (
    Fields,
    get_object,
    get_objects,
    get_string,
    get_text,
    object_fields,
    parse_object,
    str_or_empty,
)
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.dialects.wire import Errors
from llm_proxy.exchange import Headers, Request
from llm_proxy.framing import sse
from llm_proxy.turns import Failure, Json

DONE_EVENT: Final = sse.encode_event(sse.DONE_DATA)
"""The event that ends a stream of chats or completions; the Responses API has none."""

CHAT_PATH: Final = re.compile(r".*/(?:chat|agents|prompts/[^/]+)/completions")
"""The paths of chats: the common one, Mistral's agents, and Portkey's prompts."""

_AZURE_DEPLOYMENT_PATH: Final = re.compile(r"/openai/deployments/([^/]+)/")
_ERROR_LINE: Final = re.compile(rb"(?:\A|[\r\n])error: *([^\r\n]+)")
_NUMERIC_CODE: Final = re.compile("[1-9][0-9]{0,9}")

ERRORS: Final = Errors(
    {
        400: Failure("We could not parse the JSON body of your request.", "invalid_request_error"),
        401: Failure(
            "Incorrect API key provided. You can find your API key in your account's settings.",
            "invalid_request_error",
            "invalid_api_key",
        ),
        403: Failure(
            "Country, region, or territory not supported",
            "invalid_request_error",
            "unsupported_country_region_territory",
        ),
        404: Failure(
            "The model does not exist or you do not have access to it.",
            "invalid_request_error",
            "model_not_found",
        ),
        429: Failure(
            "Rate limit reached on requests per min (RPM). Please try again later.",
            "requests",
            "rate_limit_exceeded",
        ),
        500: Failure(
            "The server had an error while processing your request. Sorry about that!",
            "server_error",
        ),
        503: Failure(
            "The engine is currently overloaded, please try again later",
            "service_unavailable_error",
        ),
    },
    {
        "invalid_api_key": 401,
        "unsupported_country_region_territory": 403,
        "model_not_found": 404,
        "rate_limit_exceeded": 429,
        "insufficient_quota": 429,
        "requests": 429,
        "tokens": 429,
        "invalid_request_error": 400,
        "overloaded_error": 503,
        "service_unavailable_error": 503,
    },
)


@dataclass(frozen=True, slots=True)
class ProviderVariant:
    """The deviations of one OpenAI-compatible provider; the defaults are OpenAI's."""

    reasoning_field: Literal["reasoning_content", "reasoning", "details", "blocks"] = (
        "reasoning_content"
    )
    """The field that holds reasoning text; `details` repeats the text of `reasoning` with its type
    and signature in `reasoning_details`; `blocks` are typed blocks of `content`."""
    sends_whole_tool_calls: bool = False
    """Whether a stream sends a tool call in one chunk."""
    sends_usage_with_finish: bool = False
    """Whether the chunk with the finish reason always holds usage; else usage is a separate chunk,
    sent if the request sets `stream_options.include_usage`."""
    sends_done: bool = True
    """Whether `[DONE]` ends a stream."""
    error_event_name: str = ""
    """The SSE event name of an error; no other event has a name."""
    has_flat_errors: bool = False
    """Whether the body of an HTTP error is the error itself, not an object with `error`."""
    has_numeric_error_codes: bool = False
    """Whether the code of an HTTP error is its status, as a number."""
    preamble_chunk: Mapping[str, Json] | None = None
    """A chunk sent before the first one; None where there is none."""


OPENAI_VARIANT: Final = ProviderVariant()

VARIANT_BY_PROVIDER: Final[Mapping[str, ProviderVariant]] = {
    "azure": ProviderVariant(
        preamble_chunk={
            "choices": [], "created": 0, "id": "", "model": "", "object": "",
            "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": {}}],
        },
    ),
    "deepseek": ProviderVariant(sends_usage_with_finish=True),
    "fireworks": ProviderVariant(sends_usage_with_finish=True),
    "groq": ProviderVariant(
        reasoning_field="reasoning", sends_whole_tool_calls=True,
        sends_usage_with_finish=True, error_event_name="error"
    ),
    "llamacpp": ProviderVariant(has_numeric_error_codes=True),
    "mistral": ProviderVariant(
        reasoning_field="blocks", sends_whole_tool_calls=True,
        sends_usage_with_finish=True, has_flat_errors=True
    ),
    "ollama": ProviderVariant(reasoning_field="reasoning", sends_whole_tool_calls=True),
    "openrouter": ProviderVariant(reasoning_field="details", has_numeric_error_codes=True),
    "perplexity": ProviderVariant(sends_usage_with_finish=True, sends_done=False),
    # Not a provider: a test uses it to get `reasoning`.
    "test-llm": ProviderVariant(reasoning_field="reasoning"),
    "together": ProviderVariant(reasoning_field="reasoning", sends_usage_with_finish=True),
    "vllm": ProviderVariant(reasoning_field="reasoning", has_numeric_error_codes=True),
    "xai": ProviderVariant(sends_usage_with_finish=True),
    "zai": ProviderVariant(sends_usage_with_finish=True),
}  # fmt: skip


def provider_variant(provider: str) -> ProviderVariant:
    """The deviations of this provider; OpenAI's own for an unknown one."""
    return VARIANT_BY_PROVIDER.get(provider, OPENAI_VARIANT)


class OpenAIDialect(Dialect):
    """What the dialects of OpenAI's APIs share: the requested model, errors and rate limits."""

    cassette_key_headers = ("openai-beta",)
    errors = ERRORS

    def model(self, request: Request) -> str:
        """The body's `model`, else the Azure deployment in the path; empty without either."""
        deployment = _AZURE_DEPLOYMENT_PATH.search(request.path)
        return super().model(request) or (unquote(deployment[1]) if deployment else "")

    def error_body(self, status: int, kind: str, message: str) -> bytes:
        """A JSON error body in OpenAI's format; every client prints its message and code."""
        fields = {"message": message, "type": kind, "param": None, "code": kind}
        return orjson.dumps({"error": fields})

    def error_response(
        self,
        status: int,
        failure: Failure,
        context: EncodeContext,
        retry_after: float | None = None,
    ) -> DialectResponse:
        """An HTTP error in the format of the context's provider; missing fields get defaults."""
        variant = provider_variant(context.provider)
        document = error_fields(with_status_defaults(status, failure, variant), variant)
        value = {"object": "error", **document} if variant.has_flat_errors else {"error": document}
        delay = response_encoding.retry_headers(retry_after, ms_name="retry-after-ms")
        return self.json_response(value, context, status, delay)

    def rate_limit_headers(self, context: EncodeContext) -> Headers:
        """The `x-ratelimit-*` headers of requests and tokens."""
        limits = context.account_limits or AccountLimits()
        return tuple(
            (f"x-ratelimit-{label}-{name}", value)
            for name, window in limits.named_windows
            for label, value in (
                ("limit", str(window.limit)),
                ("remaining", str(window.remaining)),
                ("reset", _format_go_duration(window.reset_s)),
            )
        )

    def json_response(
        self, document: Document, context: EncodeContext, status: int = 200, headers: Headers = ()
    ) -> DialectResponse:
        """A JSON document, with the headers of every response before these."""
        all_headers = (*self._common_headers(context), *headers)
        return response_encoding.json_response(document, all_headers, status)

    def stream_response(self, messages: Iterable[bytes], context: EncodeContext) -> DialectResponse:
        """A stream of events, with the headers of every response."""
        content_type = f"{sse.CONTENT_TYPE}; charset=utf-8"
        return response_encoding.stream_response(
            "sse", content_type, messages, self._common_headers(context)
        )

    def _common_headers(self, context: EncodeContext) -> Headers:
        request_id = context.fake_identifier("req_", length=32)
        return ("x-request-id", request_id), *self.rate_limit_headers(context)


def with_status_defaults(status: int, failure: Failure, variant: ProviderVariant) -> Failure:
    """The error, its missing type, code and message filled with those of the status."""
    error = ERRORS.with_defaults(failure, status)
    if variant.has_numeric_error_codes:
        return replace(error, code=failure.code or str(status))
    return error


def error_fields(failure: Failure, variant: ProviderVariant) -> Document:
    """The JSON object of an error; the code is a number where the provider's codes are."""
    is_numeric = variant.has_numeric_error_codes and _NUMERIC_CODE.fullmatch(failure.code)
    code = int(failure.code) if is_numeric else failure.code or None
    return {"message": failure.message, "type": failure.type or None, "param": None, "code": code}


def _format_go_duration(duration_s: float) -> str:
    """A duration in Go's notation: `12ms`, `8.64s`, `6m0s`."""
    if duration_s < 1:
        return f"{duration_s * 1000:.0f}ms"
    minutes, rest_s = divmod(duration_s, 60)
    hours, minutes = divmod(int(minutes), 60)
    seconds_text = f"{rest_s:.3f}".rstrip("0").rstrip(".") + "s"
    if hours:
        return f"{hours}h{minutes}m{seconds_text}"
    return f"{minutes}m{seconds_text}" if minutes else seconds_text


def decode_event(message: bytes) -> Fields:
    """The JSON document of one event, or of what replaces it; an error is under `error`."""
    event = sse.parse_event(message)
    if event.data == sse.DONE_DATA:
        return {}
    if event.data is not None:
        document = parse_object(event.data)
        if event.event_type == "error" and "error" not in document:
            return {"error": dict(document) or event.data.decode("utf-8", "replace")}
    elif error_line := _ERROR_LINE.search(message):
        document = parse_object(error_line[1])
        if "error" not in document:
            return {"error": error_line[1].decode("utf-8", "replace")}
    else:  # a bare document labelled as a stream
        document = parse_object(message)
    return wrap_error_object(document)


def event_type(message: bytes, fields: Fields) -> str:
    """The `type` among the fields of an event, else the name of the event."""
    return get_text(fields, "type") or sse.parse_event(message).event_type


def event_output_chars(kind: str, fields: Fields) -> int:
    """The characters of an event of this type; an audio delta or a partial image counts as one."""
    if not kind.endswith((".delta", ".partial_image")):
        return 0
    if kind.endswith(".audio.delta"):  # base64, not text
        return 1
    delta = fields.get("delta")
    blocks = get_objects(object_fields(delta), "content")  # of an assistant's message
    texts = (get_string(get_object(block, "text"), "value") for block in blocks)
    return max(len(str_or_empty(delta) or get_string(fields, "text") or "".join(texts)), 1)


def wrap_error_object(document: Fields) -> Fields:
    """The document, under `error` where its `object` is `error`; else unchanged."""
    is_error = document.get("object") == "error" and "error" not in document
    return {"error": dict(document)} if is_error else document
