"""OpenAI Responses: typed events about items, and a response that says all of it again.

A stream ends with an event that holds the whole response (`response.completed`, `.incomplete`,
`.failed`), or with an `error`, which OpenAI spells flat and Azure and gateways nested.  There is
no `[DONE]`; the one that OpenRouter sends proves nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final
from urllib.parse import parse_qs

from llm_proxy.dialects import openai_api, openai_item, plain, reading
from llm_proxy.dialects.base import Judgement, Response
from llm_proxy.dialects.fragments import Fragments
from llm_proxy.dialects.openai_deltas import Items
from llm_proxy.dialects.reading import Fields
from llm_proxy.exchange import Head, Request
from llm_proxy.framing.sse import read_event
from llm_proxy.turns import (
    Failure,
    Finish,
    Media,
    Turn,
    Usage,
)

_CREATED: Final = re.compile(r"/responses(?:/compact|/[^/]+/cancel)?\Z")
_STORED: Final = re.compile(r"/responses/[^/]+\Z")

_ENDS: Final = frozenset(
    ("response.completed", "response.incomplete", "response.failed", "response.cancelled")
)
_LIFE: Final = _ENDS | {"response.created", "response.queued", "response.in_progress"}
"""The events that hold a response."""

_FINISH: Final = {
    "completed": Finish.STOP,
    "max_output_tokens": Finish.LENGTH,
    "content_filter": Finish.CONTENT_FILTER,
    "failed": Finish.ERROR,
    "queued": Finish.PAUSED,
    "in_progress": Finish.PAUSED,
}
"""By status, or by the reason why a response is incomplete."""

_OF_THE_CALLER: Final = frozenset(
    (
        "custom_tool_call",
        "computer_call",
        "local_shell_call",
        "shell_call",
        "apply_patch_call",
        "tool_search_call",
        "mcp_approval_request",
    )
)
"""Items that may ask the caller for something."""

_KIND_LENGTH: Final = 60
"""Characters of an event's type that fit a table."""

_METADATA: Final = (
    "service_tier",
    "previous_response_id",
    "conversation",
    "moderation",
    "content_filters",
    "tool_usage",
)


class OpenAIResponses:
    """The dialect `openai-responses`."""

    name = "openai-responses"

    def claims(self, request: Request) -> bool:
        """Whatever is answered by a response: to create, compact, cancel or fetch one."""
        path = _STORED if request.method == "GET" else _CREATED
        return request.method in ("GET", "POST") and path.search(request.path) is not None

    def model(self, request: Request) -> str:
        """The body's `model`, else the Azure deployment that the path names."""
        return openai_api.model(request)

    def streams(self, request: Request) -> bool:
        """Only where the body says so, or the query of a response that is fetched."""
        if request.method == "GET":
            return parse_qs(request.query).get("stream") == ["true"]
        return openai_api.streams(request)

    def codec(self, request: Request, head: Head) -> str:
        """By status and content type; where there is none, by what was asked for."""
        return plain.events_or_whole(head, streams=self.streams(request))

    def judge(self, response: Response) -> Judgement:
        """Whole by the event that holds the whole response, or by an error in the stream."""
        if response.codec != "sse" or not plain.succeeded(response.head):
            return plain.judge(response)
        last = ""
        for kind, event in _events(reversed(response.messages)):
            if failure := _failure(kind, event):
                return plain.in_band(failure)
            if kind in _ENDS:
                return Judgement(whole=True, reason=kind)
            last = last or kind
        if last:
            return Judgement(whole=False, reason=f"no response.completed after {_short(last)}")
        said = plain.body(response).strip()
        return Judgement(whole=False, reason="no event" if said else "empty stream")

    def turns(self, response: Response) -> tuple[Turn, ...]:
        """One turn, or none where nothing of a response can be read."""
        if not plain.succeeded(response.head):
            return (Turn((), failure=plain.http_failure(response)),)
        reader = _Reader()
        if response.codec == "sse":
            for kind, event in _events(response.messages):
                reader.take(kind, event)
        else:
            reader.take_document(openai_api.lifted(reading.document(plain.body(response))))
        return reader.turns()

    def error(self, status: int, kind: str, message: str) -> bytes:
        """The shape whose message and code every client prints."""
        return openai_api.error(kind, message)


def _events(messages: Iterable[bytes]) -> Iterator[tuple[str, Fields]]:
    """The events with their types; a bare response labelled as a stream is its own last event."""
    for message in messages:
        event = openai_api.said(message)
        if event.get("object") == "response":
            yield f"response.{reading.words(event.get('status'))}", {"response": dict(event)}
        elif event:
            yield reading.words(event.get("type")) or read_event(message).event, event


def _failure(kind: str, event: Fields) -> Failure | None:
    """The error of an event: nested, flat, or in the response that failed."""
    error = event.get("error")
    if kind == "error" and not error:
        error = dict(event)
    elif kind == "response.failed":
        error = error or reading.fields(event.get("response")).get("error")
    if not error:
        return None
    if isinstance(error, dict) and error.get("type") == "error":
        error = {name: it for name, it in error.items() if name != "type"}
    return plain.failure(error)


class _Reader:
    """The turn of a response, as its events come."""

    def __init__(self) -> None:
        self._items = Items()
        self._sound = Fragments()
        self._response: Fields = {}
        self._status = ""
        """How the response ended; empty while it has not."""
        self._failure: Failure | None = None

    def take(self, kind: str, event: Fields) -> None:
        """Read one event."""
        self._failure = self._failure or _failure(kind, event)
        if kind in _LIFE:
            self._response = reading.fields(event.get("response")) or self._response
            if kind in _ENDS:
                self._status = kind.removeprefix("response.")
        elif kind == "response.audio.delta":
            self._sound.add(Media("audio/*", base64=reading.text(event.get("delta"))))
        elif kind == "response.audio.transcript.delta":
            self._sound.add(Media("audio/*", transcript=reading.text(event.get("delta"))))
        else:
            self._items.take(kind, event)

    def take_document(self, document: Fields) -> None:
        """Read a body that does not stream; one of a background response may not have ended."""
        if error := document.get("error"):
            self._failure = plain.failure(error)
        if document.get("object") == "response" or "output" in document:
            self._response = document
            self._status = reading.words(document.get("status"))

    def turns(self) -> tuple[Turn, ...]:
        """What was said, by the latest telling of it."""
        output = reading.objects(self._response.get("output")) or self._items.documents()
        told = [part for item in output for part in openai_item.parts(item)]
        parts = (*told, *self._sound.parts())
        if not (parts or self._response or self._status or self._failure):
            return ()
        raw = self._finish_raw()
        waits = raw == "completed" and _waits(output)
        finish = Finish.TOOL_CALLS if waits else _FINISH.get(raw, Finish.OTHER)
        return (
            Turn(
                parts,
                finish=finish if raw else None,
                finish_raw=raw,
                usage=_usage(self._response),
                failure=self._failure,
                id=reading.words(self._response.get("id")),
                model=reading.words(self._response.get("model")),
                metadata=reading.metadata(self._response, _METADATA),
            ),
        )

    def _finish_raw(self) -> str:
        """The status; of an incomplete response the reason, which says more."""
        why = reading.fields(self._response.get("incomplete_details")).get("reason")
        return reading.words(why) if why and self._status == "incomplete" else self._status


def _waits(output: Sequence[Fields]) -> bool:
    """Whether the model waits for its caller to run a tool.

    A function is always the caller's.  The other tools may have been run by the provider: then
    there is an output, or (as of xAI, which gives none) a message that goes on.
    """
    answered = {
        reading.words(item.get("call_id"))
        for item in output
        if reading.words(item.get("type")).endswith("_output")
    }
    waits = False
    for item in output:
        kind = reading.words(item.get("type"))
        is_open = reading.words(item.get("call_id")) not in answered
        if kind == "function_call" and is_open:
            return True
        waits = kind != "message" and (waits or (kind in _OF_THE_CALLER and is_open))
    return waits


def _usage(response: Fields) -> Usage | None:
    counts = reading.fields(response.get("usage"))
    if not counts:
        return None
    read = reading.fields(counts.get("input_tokens_details"))
    written = reading.fields(counts.get("output_tokens_details"))
    return Usage(
        input=reading.count(counts.get("input_tokens")),
        output=reading.count(counts.get("output_tokens")),
        total=reading.count(counts.get("total_tokens")),
        cache_read=reading.count(read.get("cached_tokens")),
        cache_write=reading.count(read.get("cache_write_tokens")),
        reasoning=reading.count(written.get("reasoning_tokens")),
    )


def _short(kind: str) -> str:
    """A type that fits a table, whatever the stream calls its events."""
    return " ".join(kind.split())[:_KIND_LENGTH]
