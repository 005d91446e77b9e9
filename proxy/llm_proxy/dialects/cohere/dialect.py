"""Cohere's own API: chats in version 2 and version 1, completions, and what comes in one document.

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
from llm_proxy.dialects.base import Judgement, Response
from llm_proxy.dialects.capabilities import Vocabulary
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
from llm_proxy.dialects.cohere.v1_encoder import EventsSpeech
from llm_proxy.dialects.cohere.v2_encoder import MessageSpeech
from llm_proxy.dialects.conversion import Fitted
from llm_proxy.dialects.encode_context import Delivery
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.errors import CannotSay
from llm_proxy.exchange import Head, Headers, Request, header
from llm_proxy.framing import sse
from llm_proxy.turns import Counting, Failure, Turn

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
    volatile: tuple[str, ...] = ()
    key_headers: tuple[str, ...] = ()
    ids = (
        "$.messages[*].tool_calls[*].id",
        "$.messages[*].tool_call_id",
    )
    counting = Counting()
    overloaded = 503

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
        asked = lenient_json.document(request.body)
        return bool(before) or _is_from_a_client(request) or _tells(operation, asked)

    def model(self, request: Request) -> str:
        """The body's `model`; version 1 has a default."""
        return lenient_json.words(lenient_json.document(request.body).get("model"))

    def streams(self, request: Request) -> bool:
        """Only where the body says `"stream": true`."""
        return lenient_json.document(request.body).get("stream") is True

    def conversation(self, request: Request) -> Conversation | None:
        """A chat of either version, or a prompt."""
        body = lenient_json.document(request.body)
        if not body or request.method != "POST":
            return None
        match _operation(request):
            case operation if operation == _CHAT:
                return request_decoder.read(body)
            case operation if operation == _OLD_CHAT:
                return request_decoder.read_version_1(body)
            case operation if operation == _COMPLETION:
                settings = body.get("temperature"), body.get("p")
                return request_decoding.prompted(body.get("prompt"), *settings)
            case _:
                return None

    def codec(self, request: Request, head: Head) -> str:
        """By content type; where a streamed response has none, by the version asked for."""
        if not json_api.succeeded(head):
            return "whole"
        content_type = header(head.headers, "content-type")
        if content_type or not self.streams(request):
            return framing.by_content_type(content_type)
        return "sse" if request.path.endswith(_CHAT) else "ndjson"

    def judge(self, response: Response) -> Judgement:
        """Whole by the last event, which may hold an error, or by `[DONE]`."""
        if response.codec not in _STREAMED or not json_api.succeeded(response.head):
            return json_api.judge(response)
        done = False
        for last in reversed(response.messages):
            done = done or sse.is_done(last)
            if judgement := _judge_event(_event(last)):
                return judgement
        if done:
            return Judgement(whole=True, reason=sse.DONE.decode())
        empty = not json_api.body(response).strip()
        return Judgement(whole=False, reason="empty stream" if empty else "no last event")

    def turns(self, response: Response) -> tuple[Turn, ...]:
        """One turn, of completions one a generation; none for numbers and tokens."""
        if not json_api.succeeded(response.head):
            said = lenient_json.document(json_api.body(response))
            failure = shared_fields.failure(said) or json_api.http_failure(response)
            return (Turn((), failure=failure),)
        documents = [*_documents(response)]
        if any(not _OF_VERSION_1.isdisjoint(document) for document in documents):
            return v1_decoder.turns(documents)
        if any(not _OF_VERSION_2.isdisjoint(document) for document in documents):
            return (v2_decoder.turn(documents),)
        return ()

    def says(self, codec: str, message: bytes) -> int:
        """What a delta says, of either version."""
        return _says(_event(message)) if codec in _STREAMED else 0

    def keep_alive(self, codec: str) -> bytes:
        """A comment, as gateways send it."""
        return sse.KEEP_ALIVE if codec == "sse" else b""

    def error(self, status: int, kind: str, message: str) -> bytes:
        """The shape whose message every client prints."""
        return orjson.dumps({"message": message, "error_type": kind})

    def typical(self, model: str, *, stream: bool) -> Request:
        """A chat of version 2."""
        return response_encoding.post(
            f"/{_CHAT}", {"model": model, "stream": stream, "messages": []}
        )

    def fit(self, request: Request, turns: Sequence[Turn], delivery: Delivery) -> Fitted:
        """In the words of either version's chats."""
        words = self._vocabulary(request, delivery)
        return conversion.fit(turns, words, self.model(request), delivery)

    def speak(self, request: Request, turns: Sequence[Turn], delivery: Delivery) -> Response:
        """Events up to the last one, or one document."""
        (told,) = self.fit(request, turns, delivery).turns
        stream = self.streams(request)
        if told.failure and not stream:
            failure = next((it.failure for it in turns if it.failure), told.failure)
            return errors.refuse(errors.status(failure), told.failure, delivery)
        if _operation(request) == _CHAT:
            return MessageSpeech(stream, delivery).response(told)
        return EventsSpeech(request, stream, delivery).response(told)

    def refuse(
        self, status: int, failure: Failure, delivery: Delivery, retry_after: float | None = None
    ) -> Response:
        """A message, with its type beside it where it has one."""
        return errors.refuse(status, failure, delivery, retry_after)

    def countdown(self, delivery: Delivery) -> Headers:
        """Of calls."""
        return errors.countdown(delivery)

    def side_answer(self, request: Request, delivery: Delivery) -> Response | None:
        """Embeddings, ranks, tokens, and models."""
        if request.method == "GET":
            return auxiliary_responses.models(request.path, delivery)
        operation = _operation(request)
        if operation in (_CHAT, _OLD_CHAT, _COMPLETION):
            return None
        return auxiliary_responses.answer(operation, request, delivery)

    def _vocabulary(self, request: Request, delivery: Delivery) -> Vocabulary:
        stream = self.streams(request)
        operation = _operation(request)
        if operation == _CHAT:
            return v2_capabilities.vocabulary(stream=stream)
        if operation == _OLD_CHAT:
            return v1_capabilities.vocabulary(delivery.uuid("response"), stream=stream)
        raise CannotSay(f"cohere tells no turn on /{operation}")


def _operation(request: Request) -> str:
    """What is asked for, whatever a gateway puts in front: `v2/chat`."""
    path = _PATH.fullmatch(request.path)
    return path["operation"] if path else request.path.removeprefix("/")


def _tells(operation: str, asked: Fields) -> bool:
    return any(name in asked for name in _TELLING[operation])


def _is_from_a_client(request: Request) -> bool:
    """Whether a client of Cohere's says so itself."""
    named = (header(request.headers, name) or "" for name in ("user-agent", "x-fern-sdk-name"))
    version = header(request.headers, "cohere-version")
    return version is not None or any("cohere" in name.lower() for name in named)


def _judge_event(event: Fields) -> Judgement | None:
    """What an event says of the stream as a whole, if anything."""
    said = lenient_json.fields(event.get("delta")) or event
    if failure := shared_fields.failure(said):
        return json_api.in_band(failure)
    if event.get("type") == v2_decoder.END:
        return Judgement(whole=True, reason=v2_decoder.END)
    if event.get("is_finished") is True and event.get("event_type") in _ENDS:
        return Judgement(whole=True, reason="is_finished: true")
    return None


def _says(event: Fields) -> int:
    return v2_decoder.says(event) or v1_decoder.says(event)


def _documents(response: Response) -> Iterator[Fields]:
    """The events of a stream, or the one document of a body."""
    if response.codec not in _STREAMED:
        return iter([lenient_json.document(json_api.body(response))])
    return map(_event, response.messages)


def _event(message: bytes) -> Fields:
    """The document of a line or an SSE event; the event's name stands in for a missing type."""
    event = sse.read_event(message)
    if event.data is None:
        return lenient_json.document(message)  # a line
    document = lenient_json.document(event.data)
    if event.event == "error" and not shared_fields.failure(document):
        return {"error": dict(document) or event.data.decode("utf-8", "replace")}
    if event.event and document and "type" not in document:
        return {**document, "type": event.event}
    return document
