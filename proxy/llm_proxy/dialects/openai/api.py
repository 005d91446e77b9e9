"""What OpenAI's APIs have in common, whatever is asked: errors, models, streams and their end.

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
from llm_proxy.framing.sse import read_event

_DONE: Final = b"[DONE]"

EVENTS: Final = "text/event-stream; charset=utf-8"
"""The content type of a stream."""

DONE: Final = sse.event(_DONE)
"""What ends one, but for those of responses."""

CHATS: Final = re.compile(r".*/(?:chat|agents|prompts/[^/]+)/completions")
"""The paths of chats: everybody's, those of Mistral's agents, and of Portkey's prompts."""

_DEPLOYMENT: Final = re.compile(r"/openai/deployments/([^/]+)/")
_STRAY_ERROR: Final = re.compile(rb"(?:\A|[\r\n])error: *([^\r\n]+)")


def model(request: Request) -> str:
    """The body's `model`, else the Azure deployment that the path names."""
    if asked := lenient_json.words(lenient_json.document(request.body).get("model")):
        return asked
    deployment = _DEPLOYMENT.search(request.path)
    return unquote(deployment[1]) if deployment else ""


def streams(request: Request) -> bool:
    """Only where the body says `"stream": true`."""
    return lenient_json.document(request.body).get("stream") is True


def error(kind: str, message: str) -> bytes:
    """The shape whose message and code every client prints."""
    about = {"message": message, "type": kind, "param": None, "code": kind}
    return orjson.dumps({"error": about})


def is_done(message: bytes) -> bool:
    """Whether the message is the `[DONE]` that ends a stream."""
    return _DONE in message and (read_event(message).data or b"").strip() == _DONE


def said(message: bytes) -> Fields:
    """The document of one event, or what stands in an event's place; errors are in `error`."""
    event = read_event(message)
    if event.data is not None:
        document = lenient_json.document(event.data)
        if event.event == "error" and "error" not in document:
            return {"error": dict(document) or event.data.decode("utf-8", "replace")}
        return lifted(document)
    if stray := _STRAY_ERROR.search(message):
        document = lenient_json.document(stray[1])
        return document if "error" in document else {"error": stray[1].decode("utf-8", "replace")}
    return lifted(lenient_json.document(message))  # a bare document labelled as a stream


def lifted(document: Fields) -> Fields:
    """The document; one that is itself an error, under `error`."""
    is_error = document.get("object") == "error" and "error" not in document
    return {"error": dict(document)} if is_error else document
