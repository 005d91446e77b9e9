"""What OpenAI's APIs share: errors, models, and stream events.

An error may come in place of an event: an event named `error` (Groq), an object that says it is
one (vLLM), a line `error: {...}` that is no SSE at all (GPUStack, old llama.cpp), or a bare
document labelled as the stream that it is not.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote

import orjson

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.exchange import Request
from llm_proxy.framing import sse
from llm_proxy.framing.sse import parse_event

_DONE: Final = b"[DONE]"

EVENTS: Final = "text/event-stream; charset=utf-8"
"""The content type of a stream."""

DONE: Final = sse.encode_event(_DONE)
"""What ends one, but for those of responses."""

CHATS: Final = re.compile(r".*/(?:chat|agents|prompts/[^/]+)/completions")
"""The paths of chats: everybody's, those of Mistral's agents, and of Portkey's prompts."""

_DEPLOYMENT: Final = re.compile(r"/openai/deployments/([^/]+)/")
_STRAY_ERROR: Final = re.compile(rb"(?:\A|[\r\n])error: *([^\r\n]+)")


def model_of(request: Request) -> str:
    """The body's `model`, else the Azure deployment that the path names."""
    if text := lenient_json.printable_text(lenient_json.parse_object(request.body).get("model")):
        return text
    deployment = _DEPLOYMENT.search(request.path)
    return unquote(deployment[1]) if deployment else ""


def requests_stream(request: Request) -> bool:
    """Only where the body says `"stream": true`."""
    return lenient_json.parse_object(request.body).get("stream") is True


def error_body(kind: str, message: str) -> bytes:
    """The shape whose message and code every client prints."""
    fields = {"message": message, "type": kind, "param": None, "code": kind}
    return orjson.dumps({"error": fields})


def is_done(message: bytes) -> bool:
    """Whether the message is the `[DONE]` that ends a stream."""
    return _DONE in message and (parse_event(message).data or b"").strip() == _DONE


def decode_event(message: bytes) -> Fields:
    """The document of one event, or what stands in an event's place; errors are in `error`."""
    event = parse_event(message)
    if event.data is not None:
        document = lenient_json.parse_object(event.data)
        if event.encode_event == "error" and "error" not in document:
            return {"error": dict(document) or event.data.decode("utf-8", "replace")}
        return with_error_field(document)
    if stray := _STRAY_ERROR.search(message):
        document = lenient_json.parse_object(stray[1])
        return document if "error" in document else {"error": stray[1].decode("utf-8", "replace")}
    return with_error_field(
        lenient_json.parse_object(message)
    )  # a bare document labelled as a stream


def with_error_field(document: Fields) -> Fields:
    """The document; one that is itself an error, under `error`."""
    is_error = document.get("object") == "error" and "error" not in document
    return {"error": dict(document)} if is_error else document
