"""Cohere's own API: chats in version 2 and version 1, completions, and what comes in one document.

Version 2 streams SSE: typed events up to `message-end`, then `data: [DONE]`.  Version 1 streams
lines of JSON up to one with `"is_finished": true`, or the same as SSE where it was asked to.
An error in a stream stands in that last event; beside an HTTP error it is `{"message": ...}`.

Others have paths of the same name (Writer's `/v1/chat`, Jina's `/v1/rerank`, KoboldAI's
`/api/v1/generate`), so most requests must show by their body or headers that they are Cohere's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import orjson

from llm_proxy import framing
from llm_proxy.dialects import cohere_events, cohere_message, cohere_terms, plain, reading
from llm_proxy.dialects.base import Judgement, Response
from llm_proxy.dialects.reading import Fields
from llm_proxy.exchange import Head, Request, header
from llm_proxy.framing.sse import read_event
from llm_proxy.turns import Turn

_CHAT: Final = "v2/chat"
_PATH: Final = re.compile(r"(?P<before>/.*)?/(?P<operation>v[12]/[a-z]+)")
_MODELS: Final = re.compile(r"/v1/models(/[^/]+)?")

_TELLING: Final = {
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
"""The fields that tell each operation from others' of its path; none where nothing in it does."""

_ENDS: Final = (None, "stream-end", "stream-error")
"""Events that finish a stream of version 1; old servers have no types, others finish less."""

_STREAMED: Final = ("sse", "ndjson")
_DONE: Final = b"[DONE]"

_OF_VERSION_1: Final = frozenset(
    ("event_type", "is_finished", "generation_id", "generations", "response_id")
)
_OF_VERSION_2: Final = frozenset(("delta", "message", "finish_reason", "error"))
"""A document with none of these fields is no answer in words."""


class Cohere:
    """The dialect `cohere`."""

    name = "cohere"

    def claims(self, request: Request) -> bool:
        """`.../v2/chat`; other paths where they can be nobody else's."""
        if request.method == "GET":
            return _MODELS.fullmatch(request.path) is not None and _is_from_a_client(request)
        path = _PATH.fullmatch(request.path)
        if request.method != "POST" or path is None:
            return False
        before, operation = path["before"] or "", path["operation"]
        if operation == _CHAT:
            return True
        if operation not in _TELLING or (before and "cohere" not in before):
            return False
        asked = reading.document(request.body)
        return bool(before) or _is_from_a_client(request) or _tells(operation, asked)

    def model(self, request: Request) -> str:
        """The body's `model`; version 1 has a default."""
        return reading.words(reading.document(request.body).get("model"))

    def streams(self, request: Request) -> bool:
        """Only where the body says `"stream": true`."""
        return reading.document(request.body).get("stream") is True

    def codec(self, request: Request, head: Head) -> str:
        """By content type; where a streamed response has none, by the version asked for."""
        if not plain.succeeded(head):
            return "whole"
        content_type = header(head.headers, "content-type")
        if content_type or not self.streams(request):
            return framing.by_content_type(content_type)
        return "sse" if request.path.endswith(_CHAT) else "ndjson"

    def judge(self, response: Response) -> Judgement:
        """Whole by the last event, which may hold an error, or by `[DONE]`."""
        if response.codec not in _STREAMED or not plain.succeeded(response.head):
            return plain.judge(response)
        done = False
        for message in reversed(response.messages):
            done = done or _is_done(message)
            if judgement := _judge_event(_event(message)):
                return judgement
        if done:
            return Judgement(whole=True, reason=_DONE.decode())
        empty = not plain.body(response).strip()
        return Judgement(whole=False, reason="empty stream" if empty else "no last event")

    def turns(self, response: Response) -> tuple[Turn, ...]:
        """One turn, of completions one a generation; none for numbers and tokens."""
        if not plain.succeeded(response.head):
            said = reading.document(plain.body(response))
            failure = cohere_terms.failure(said) or plain.http_failure(response)
            return (Turn((), failure=failure),)
        documents = [*_documents(response)]
        if any(not _OF_VERSION_1.isdisjoint(document) for document in documents):
            return cohere_events.turns(documents)
        if any(not _OF_VERSION_2.isdisjoint(document) for document in documents):
            return (cohere_message.turn(documents),)
        return ()

    def error(self, status: int, kind: str, message: str) -> bytes:
        """The shape whose message every client prints."""
        return orjson.dumps({"message": message, "error_type": kind})


def _tells(operation: str, asked: Fields) -> bool:
    return any(name in asked for name in _TELLING[operation])


def _is_from_a_client(request: Request) -> bool:
    """Whether a client of Cohere's says so itself."""
    named = (header(request.headers, name) or "" for name in ("user-agent", "x-fern-sdk-name"))
    version = header(request.headers, "cohere-version")
    return version is not None or any("cohere" in name.lower() for name in named)


def _is_done(message: bytes) -> bool:
    return _DONE in message and (read_event(message).data or b"").strip() == _DONE


def _judge_event(event: Fields) -> Judgement | None:
    """What an event says of the stream as a whole, if anything."""
    said = reading.fields(event.get("delta")) or event
    if failure := cohere_terms.failure(said):
        return plain.in_band(failure)
    if event.get("type") == "message-end":
        return Judgement(whole=True, reason="message-end")
    if event.get("is_finished") is True and event.get("event_type") in _ENDS:
        return Judgement(whole=True, reason="is_finished: true")
    return None


def _documents(response: Response) -> Iterator[Fields]:
    """The events of a stream, or the one document of a body."""
    if response.codec not in _STREAMED:
        return iter([reading.document(plain.body(response))])
    return map(_event, response.messages)


def _event(message: bytes) -> Fields:
    """The document of a line or an SSE event; the event's name stands in for a missing type."""
    event = read_event(message)
    if event.data is None:
        return reading.document(message)  # a line
    document = reading.document(event.data)
    if event.event == "error" and not cohere_terms.failure(document):
        return {"error": dict(document) or event.data.decode("utf-8", "replace")}
    if event.event and document and "type" not in document:
        return {**document, "type": event.event}
    return document
