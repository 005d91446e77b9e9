"""Shared by OpenAI's APIs: the requested model, errors, and stream events.

An error may replace an event: an event named `error` (Groq), an object of type `error` (vLLM),
a line `error: {...}` that is not SSE (GPUStack, old llama.cpp), or a bare JSON document with the
content type of a stream.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote

import orjson

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.base import Dialect, DialectResponse
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.openai import errors
from llm_proxy.exchange import Headers, Request
from llm_proxy.framing import sse
from llm_proxy.framing.sse import parse_event
from llm_proxy.turns import Failure

_DONE_DATA: Final = b"[DONE]"

EVENT_STREAM_CONTENT_TYPE: Final = "text/event-stream; charset=utf-8"
"""The content type of a stream."""

DONE_EVENT: Final = sse.encode_event(_DONE_DATA)
"""The event that ends a stream of chats or completions; the Responses API has none."""

CHAT_PATH: Final = re.compile(r".*/(?:chat|agents|prompts/[^/]+)/completions")
"""The paths of chats: the common one, Mistral's agents, and Portkey's prompts."""

_AZURE_DEPLOYMENT_PATH: Final = re.compile(r"/openai/deployments/([^/]+)/")
_ERROR_LINE: Final = re.compile(rb"(?:\A|[\r\n])error: *([^\r\n]+)")


class OpenAIDialect(Dialect):
    """What the dialects of OpenAI's APIs share: the requested model, errors and rate limits."""

    cassette_key_headers = ("openai-beta",)
    errors = errors.ERRORS

    def model(self, request: Request) -> str:
        """The body's `model`, else the Azure deployment in the path."""
        return requested_model(request)

    def error_body(self, status: int, kind: str, message: str) -> bytes:
        """A JSON error body in OpenAI's format; every client prints its message and code."""
        return error_body(kind, message)

    def error_response(
        self,
        status: int,
        failure: Failure,
        context: EncodeContext,
        retry_after: float | None = None,
    ) -> DialectResponse:
        """An HTTP error in the format of the context's provider."""
        return errors.error_response(status, failure, context, retry_after)

    def rate_limit_headers(self, context: EncodeContext) -> Headers:
        """The `x-ratelimit-*` headers of requests and tokens."""
        return errors.rate_limit_headers(context)


def requested_model(request: Request) -> str:
    """The body's `model`, else the Azure deployment in the path; empty without either."""
    if model := lenient_json.value_as_text(lenient_json.parse_object(request.body).get("model")):
        return model
    deployment = _AZURE_DEPLOYMENT_PATH.search(request.path)
    return unquote(deployment[1]) if deployment else ""


def requests_stream(request: Request) -> bool:
    """Whether the body has `"stream": true`."""
    return lenient_json.parse_object(request.body).get("stream") is True


def error_body(kind: str, message: str) -> bytes:
    """A JSON error body in OpenAI's format; every client prints its message and code."""
    fields = {"message": message, "type": kind, "param": None, "code": kind}
    return orjson.dumps({"error": fields})


def is_done_event(message: bytes) -> bool:
    """Whether the SSE message is the `[DONE]` that ends a stream."""
    return _DONE_DATA in message and (parse_event(message).data or b"").strip() == _DONE_DATA


def decode_event(message: bytes) -> Fields:
    """The JSON document of one event, or of what replaces it; an error is under `error`."""
    event = parse_event(message)
    if event.data == _DONE_DATA:
        return {}
    if event.data is not None:
        document = lenient_json.parse_object(event.data)
        if event.event_type == "error" and "error" not in document:
            return {"error": dict(document) or event.data.decode("utf-8", "replace")}
        return wrap_error_object(document)
    if error_line := _ERROR_LINE.search(message):
        document = lenient_json.parse_object(error_line[1])
        return (
            document if "error" in document else {"error": error_line[1].decode("utf-8", "replace")}
        )
    return wrap_error_object(
        lenient_json.parse_object(message)
    )  # a bare document labelled as a stream


def wrap_error_object(document: Fields) -> Fields:
    """The document, under `error` where its `object` is `error`; else unchanged."""
    is_error = document.get("object") == "error" and "error" not in document
    return {"error": dict(document)} if is_error else document
