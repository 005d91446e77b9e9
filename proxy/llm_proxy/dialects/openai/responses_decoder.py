"""The response of OpenAI's Responses, read: from its events, or from the document that it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from llm_proxy.dialects import json_api, lenient_json
from llm_proxy.dialects.base import Judgement, Response
from llm_proxy.dialects.fragments import Fragments
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.openai import api, output_item_decoder
from llm_proxy.dialects.openai.output_items_decoder import Items
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.framing.sse import read_event
from llm_proxy.turns import (
    Failure,
    Finish,
    Media,
    Turn,
    Usage,
)

PAUSES: Final = ("queued", "in_progress")
"""Statuses of a response that has not ended."""

STATUSES: Final = {
    "completed": Finish.STOP,
    "incomplete": Finish.OTHER,
    "failed": Finish.ERROR,
    "cancelled": Finish.OTHER,
    **dict.fromkeys(PAUSES, Finish.PAUSED),
}
"""What the status of a response says of its finish."""

REASONS: Final = {"max_output_tokens": Finish.LENGTH, "content_filter": Finish.CONTENT_FILTER}
"""What the reason says for which a response is incomplete."""

_ENDS: Final = frozenset(f"response.{it}" for it in STATUSES if it not in PAUSES)
_LIFE: Final = frozenset((*_ENDS, "response.created", *(f"response.{it}" for it in PAUSES)))
"""The events that hold a response."""

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

METADATA: Final = (
    "service_tier",
    "previous_response_id",
    "conversation",
    "moderation",
    "content_filters",
    "tool_usage",
)
"""What a response says beside its output."""


def judge(response: Response) -> Judgement:
    """Whole by the event that holds the whole response, or by an error in the stream."""
    if response.codec != "sse" or not json_api.succeeded(response.head):
        return json_api.judge(response)
    last = ""
    for kind, event in _events(reversed(response.messages)):
        if failure := _failure(kind, event):
            return json_api.in_band(failure)
        if kind in _ENDS:
            return Judgement(whole=True, reason=kind)
        last = last or kind
    if last:
        return Judgement(whole=False, reason=f"no response.completed after {_short(last)}")
    said = json_api.body(response).strip()
    return Judgement(whole=False, reason="no event" if said else "empty stream")


def turns(response: Response) -> tuple[Turn, ...]:
    """One turn, or none where nothing of a response can be read."""
    if not json_api.succeeded(response.head):
        return (Turn((), failure=json_api.http_failure(response)),)
    reader = _Reader()
    if response.codec == "sse":
        for kind, event in _events(response.messages):
            reader.take(kind, event)
    else:
        reader.take_document(api.lifted(lenient_json.document(json_api.body(response))))
    return reader.turns()


def _events(messages: Iterable[bytes]) -> Iterator[tuple[str, Fields]]:
    """The events with their types; a bare response labelled as a stream is its own last event."""
    for message in messages:
        event = api.said(message)
        if event.get("object") == "response":
            yield f"response.{lenient_json.words(event.get('status'))}", {"response": dict(event)}
        elif event:
            yield lenient_json.words(event.get("type")) or read_event(message).event, event


def _failure(kind: str, event: Fields) -> Failure | None:
    """The error of an event: nested, flat, or in the response that failed."""
    error = event.get("error")
    if kind == "error" and not error:
        error = dict(event)
    elif kind == "response.failed":
        error = error or lenient_json.fields(event.get("response")).get("error")
    if not error:
        return None
    if isinstance(error, dict) and error.get("type") == "error":
        error = {name: it for name, it in error.items() if name != "type"}
    return json_api.failure(error)


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
            self._response = lenient_json.fields(event.get("response")) or self._response
            if kind in _ENDS:
                self._status = kind.removeprefix("response.")
        elif kind == "response.audio.delta":
            self._sound.add(Media("audio/*", base64=lenient_json.text(event.get("delta"))))
        elif kind == "response.audio.transcript.delta":
            self._sound.add(Media("audio/*", transcript=lenient_json.text(event.get("delta"))))
        else:
            self._items.take(kind, event)

    def take_document(self, document: Fields) -> None:
        """Read a body that does not stream; one of a background response may not have ended."""
        if error := document.get("error"):
            self._failure = json_api.failure(error)
        is_response = document.get("object") == "response" and not document.get("deleted")
        if is_response or "output" in document:
            self._response = document
            self._status = lenient_json.words(document.get("status"))

    def turns(self) -> tuple[Turn, ...]:
        """What was said, by the latest telling of it."""
        output = lenient_json.objects(self._response.get("output")) or self._items.documents()
        told = [part for item in output for part in output_item_decoder.parts(item)]
        parts = (*told, *self._sound.parts())
        if not (parts or self._response or self._status or self._failure):
            return ()
        finish, raw = self._finish()
        return (
            Turn(
                parts,
                finish=Finish.TOOL_CALLS if finish is Finish.STOP and waits(output) else finish,
                finish_raw=raw,
                usage=_usage(self._response),
                failure=self._failure,
                id=lenient_json.words(self._response.get("id")),
                model=lenient_json.words(self._response.get("model")),
                metadata=lenient_json.metadata(self._response, METADATA),
            ),
        )

    def _finish(self) -> tuple[Finish | None, str]:
        """By the status; of an incomplete response by the reason, which says more."""
        why = lenient_json.fields(self._response.get("incomplete_details")).get("reason")
        if why and self._status == "incomplete":
            return REASONS.get(lenient_json.words(why), Finish.OTHER), lenient_json.words(why)
        status = self._status
        return (STATUSES.get(status, Finish.OTHER) if status else None), status


def waits(output: Sequence[Fields]) -> bool:
    """Whether the model waits for its caller to run a tool.

    A function is always the caller's.  The other tools may have been run by the provider: then
    there is an output, or (as of xAI, which gives none) a message that goes on.
    """
    answered = {
        lenient_json.words(item.get("call_id"))
        for item in output
        if lenient_json.words(item.get("type")).endswith("_output")
    }
    waiting = False
    for item in output:
        kind = lenient_json.words(item.get("type"))
        is_open = lenient_json.words(item.get("call_id")) not in answered
        if kind == "function_call" and is_open:
            return True
        waiting = kind != "message" and (waiting or (kind in _OF_THE_CALLER and is_open))
    return waiting


def _usage(response: Fields) -> Usage | None:
    counts = lenient_json.fields(response.get("usage"))
    if not counts:
        return None
    read = lenient_json.fields(counts.get("input_tokens_details"))
    written = lenient_json.fields(counts.get("output_tokens_details"))
    return Usage(
        input=lenient_json.count(counts.get("input_tokens")),
        output=lenient_json.count(counts.get("output_tokens")),
        total=lenient_json.count(counts.get("total_tokens")),
        cache_read=lenient_json.count(read.get("cached_tokens")),
        cache_write=lenient_json.count(read.get("cache_write_tokens")),
        reasoning=lenient_json.count(written.get("reasoning_tokens")),
    )


def usage_fields(usage: Usage | None) -> Document | None:
    """Usage as it is told."""
    if usage is None:
        return None
    return {
        "input_tokens": usage.input,
        "input_tokens_details": {
            "cached_tokens": usage.cache_read,
            "cache_write_tokens": usage.cache_write,
        },
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.total,
    }


def _short(kind: str) -> str:
    """A type that fits a table, whatever the stream calls its events."""
    return " ".join(kind.split())[:_KIND_LENGTH]
