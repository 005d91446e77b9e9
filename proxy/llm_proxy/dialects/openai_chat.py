"""OpenAI Chat Completions, and the many servers that speak it.

A stream is SSE without event names: chunks of deltas, `finish_reason` once a choice, a chunk
of usage without choices where it was asked for, and `data: [DONE]`.  Real servers leave out
the `[DONE]` (Perplexity, Hugging Face), name an event `error` (Groq), put an `error` beside
empty choices (OpenRouter) or write a line `error: {...}` that is no SSE at all (GPUStack,
old llama.cpp).  Each of these ends a stream for good.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import unquote

import orjson

from llm_proxy import framing
from llm_proxy.dialects import plain, reading
from llm_proxy.dialects.base import Judgement, Response
from llm_proxy.dialects.openai_message import Message
from llm_proxy.dialects.reading import Fields
from llm_proxy.exchange import Head, Request, header
from llm_proxy.framing.sse import read_event
from llm_proxy.turns import Failure, Finish, Json, Turn, Usage

_PATH: Final = "/chat/completions"
_DEPLOYMENT: Final = re.compile(r"/openai/deployments/([^/]+)/")
_DONE: Final = b"[DONE]"
_STRAY_ERROR: Final = re.compile(rb"(?:\A|[\r\n])error: *([^\r\n]+)")

_FINISH: Final = {
    "stop": Finish.STOP,
    "eos": Finish.STOP,
    "length": Finish.LENGTH,
    "model_length": Finish.CONTEXT_FULL,
    "tool_calls": Finish.TOOL_CALLS,
    "function_call": Finish.TOOL_CALLS,
    "content_filter": Finish.CONTENT_FILTER,
    "error": Finish.ERROR,
}

_OF_CHUNK: Final = ("system_fingerprint", "service_tier", "provider", "citations")
_OF_CHOICE: Final = ("native_finish_reason", "stop_reason")
_OF_MESSAGE: Final = ("extra_content",)
_CACHE_READ: Final = ("prompt_cache_hit_tokens", "cache_read_input_tokens", "cached_tokens")


class OpenAIChat:
    """The dialect `openai-chat`."""

    name = "openai-chat"

    def claims(self, request: Request) -> bool:
        """A POST to `.../chat/completions`, whatever a provider puts in front."""
        return request.method == "POST" and request.path.endswith(_PATH)

    def model(self, request: Request) -> str:
        """The body's `model`, else the Azure deployment that the path names."""
        if asked := reading.words(reading.document(request.body).get("model")):
            return asked
        deployment = _DEPLOYMENT.search(request.path)
        return unquote(deployment[1]) if deployment else ""

    def streams(self, request: Request) -> bool:
        """Only where the body says `"stream": true`."""
        return reading.document(request.body).get("stream") is True

    def codec(self, request: Request, head: Head) -> str:
        """Events by content type; where a streamed response has none, by what was asked for.

        Errors are documents, and some come labelled as the stream that they are not.
        """
        if not plain.succeeded(head):
            return "whole"
        content_type = header(head.headers, "content-type")
        if not content_type and self.streams(request):
            return "sse"
        return "sse" if framing.by_content_type(content_type) == "sse" else "whole"

    def judge(self, response: Response) -> Judgement:
        """Whole by `[DONE]`, by every choice finished, or by an error in the stream."""
        if response.codec != "sse" or not plain.succeeded(response.head):
            return plain.judge(response)
        if any(_is_done(message) for message in reversed(response.messages)):
            return Judgement(whole=True, reason=_DONE.decode())
        return _judge_stream(response)

    def turns(self, response: Response) -> tuple[Turn, ...]:
        """One turn a choice; an error without choices is a turn of its own."""
        if not plain.succeeded(response.head):
            return (Turn((), failure=plain.http_failure(response)),)
        reader = _Reader(streamed=response.codec == "sse")
        for document in _documents(response):
            reader.take(document)
        return reader.turns()

    def error(self, status: int, kind: str, message: str) -> bytes:
        """The shape whose message and code every client prints."""
        error = {"message": message, "type": kind, "param": None, "code": kind}
        return orjson.dumps({"error": error})


def _is_done(message: bytes) -> bool:
    return _DONE in message and (read_event(message).data or b"").strip() == _DONE


def _judge_stream(response: Response) -> Judgement:
    """A stream without `[DONE]` is whole by its own words only."""
    finished: dict[int, bool] = {}
    for document in _documents(response):
        if error := document.get("error"):
            return plain.in_band(plain.failure(error))
        for index, choice in _choices(document):
            finished[index] = finished.get(index, False) or bool(choice.get("finish_reason"))
    open_ones = [str(index) for index, done in sorted(finished.items()) if not done]
    if finished and not open_ones:
        return Judgement(whole=True, reason="every choice finished")
    if finished:
        reason = f"no [DONE], choice {', '.join(open_ones)} unfinished"
    else:
        reason = "no [DONE], no choice" if plain.body(response).strip() else "empty stream"
    return Judgement(whole=False, reason=reason)


def _documents(response: Response) -> Iterator[Fields]:
    """The chunks of a stream, or the one document of a body; an error is always in `error`."""
    documents = map(_chunk, response.messages) if response.codec == "sse" else [_body(response)]
    for document in documents:
        is_error = document.get("object") == "error" and "error" not in document
        yield {"error": dict(document)} if is_error else document


def _body(response: Response) -> Fields:
    return reading.document(plain.body(response))


def _chunk(message: bytes) -> Fields:
    """The document of one event, or what stands in an event's place."""
    event = read_event(message)
    if event.data is not None:
        document = reading.document(event.data)
        if event.event == "error" and "error" not in document:
            return {"error": dict(document) or event.data.decode("utf-8", "replace")}
        return document
    if stray := _STRAY_ERROR.search(message):
        document = reading.document(stray[1])
        return document if "error" in document else {"error": stray[1].decode("utf-8", "replace")}
    return reading.document(message)  # a bare document labelled as a stream


def _choices(document: Fields) -> Iterator[tuple[int, Fields]]:
    """The choices of a chunk or document under their index."""
    for position, choice in enumerate(reading.objects(document.get("choices"))):
        index = reading.count(choice.get("index"))
        yield position if index is None else index, choice


class _Reader:
    """The turns of a response, as its documents come."""

    def __init__(self, *, streamed: bool) -> None:
        self._streamed = streamed
        self._choices: dict[int, _Choice] = {}
        self._id = ""
        self._model = ""
        self._usage: Usage | None = None
        self._failure: Failure | None = None
        self._metadata: dict[str, Json] = {}

    def take(self, document: Fields) -> None:
        """Read one chunk; a body that does not stream is the only one."""
        self._id = self._id or reading.words(document.get("id"))
        self._model = self._model or reading.words(document.get("model"))
        self._usage = _usage(document) or self._usage
        self._metadata.update(reading.metadata(document, _OF_CHUNK))
        if error := document.get("error"):
            self._failure = self._failure or plain.failure(error)
        for index, choice in _choices(document):
            self._choices.setdefault(index, _Choice()).take(choice, streamed=self._streamed)

    def turns(self) -> tuple[Turn, ...]:
        """What was said; usage and errors of the stream belong to each choice."""
        choices = [choice for _, choice in sorted(self._choices.items())]
        if not choices and self._failure:
            choices = [_Choice()]
        return tuple(self._turn(choice) for choice in choices)

    def _turn(self, choice: _Choice) -> Turn:
        raw = choice.finish_raw
        return Turn(
            choice.message.parts(),
            finish=_FINISH.get(raw, Finish.OTHER) if raw else None,
            finish_raw=raw,
            usage=self._usage,
            failure=choice.failure or self._failure,
            id=self._id,
            model=self._model,
            metadata=tuple((self._metadata | choice.metadata).items()),
        )


class _Choice:
    """One choice, as its deltas come."""

    def __init__(self) -> None:
        self.message = Message()
        self.finish_raw = ""
        self.failure: Failure | None = None
        self.metadata: dict[str, Json] = {}

    def take(self, choice: Fields, *, streamed: bool) -> None:
        """Read one delta, or one whole message; Perplexity always sends both, side by side."""
        self.finish_raw = reading.words(choice.get("finish_reason")) or self.finish_raw
        self.metadata.update(reading.metadata(choice, _OF_CHOICE))
        if error := choice.get("error"):
            self.failure = plain.failure(error)
        first, second = ("delta", "message") if streamed else ("message", "delta")
        message = reading.fields(choice.get(first if first in choice else second))
        self.metadata.update(reading.metadata(message, _OF_MESSAGE))
        self.message.take(message, streamed=streamed)


def _usage(document: Fields) -> Usage | None:
    """Top level; else where Groq's agents or Moonshot's choices keep it."""
    choices = reading.objects(document.get("choices"))
    beside = [reading.fields(document.get("x_groq")), *choices]
    places = (reading.fields(it.get("usage")) for it in (document, *beside))
    counts = next(filter(None, places), None)
    if counts is None:
        return None
    read = reading.fields(counts.get("prompt_tokens_details"))
    written = reading.fields(counts.get("completion_tokens_details"))
    return Usage(
        input=reading.count(counts.get("prompt_tokens")),
        output=reading.count(counts.get("completion_tokens")),
        total=reading.count(counts.get("total_tokens")),
        cache_read=reading.count(
            read.get("cached_tokens"),
            *(counts.get(name) for name in _CACHE_READ),
        ),
        cache_write=reading.count(
            read.get("cache_write_tokens"), counts.get("cache_creation_input_tokens")
        ),
        reasoning=reading.count(written.get("reasoning_tokens"), counts.get("reasoning_tokens")),
    )
