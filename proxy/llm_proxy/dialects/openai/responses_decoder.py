"""Decodes a Responses API response, from events or a document."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from llm_proxy.dialects import json_api, lenient_json
from llm_proxy.dialects.base import Completeness, DialectResponse
from llm_proxy.dialects.fragments import FragmentJoiner
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.openai import api, output_item_decoder
from llm_proxy.dialects.openai.output_items_assembler import OutputItemsDecoder
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.framing.sse import parse_event
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

_ENDS: Final = frozenset(f"response.{text}" for text in STATUSES if text not in PAUSES)
_LIFE: Final = frozenset((*_ENDS, "response.created", *(f"response.{pause}" for pause in PAUSES)))
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


def completeness(response: DialectResponse) -> Completeness:
    """Whole by the event that holds the whole response, or by an error in the stream."""
    if response.codec != "sse" or not json_api.succeeded(response.head):
        return json_api.completeness(response)
    last = ""
    for kind, event in _typed_events(reversed(response.messages)):
        if failure := _decode_failure(kind, event):
            return json_api.completeness_by_error(failure)
        if kind in _ENDS:
            return Completeness(is_complete=True, reason=kind)
        last = last or kind
    if last:
        return Completeness(
            is_complete=False, reason=f"no response.completed after {_shorten_type(last)}"
        )
    data = json_api.joined_body(response).strip()
    return Completeness(is_complete=False, reason="no event" if data else "empty stream")


def decode_turns(response: DialectResponse) -> tuple[Turn, ...]:
    """One turn, or none where nothing of a response can be read."""
    if not json_api.succeeded(response.head):
        return (Turn((), failure=json_api.decode_http_error(response)),)
    reader = _ResponsesDecoder()
    if response.codec == "sse":
        for kind, event in _typed_events(response.messages):
            reader.feed(kind, event)
    else:
        reader.feed_document(
            api.with_error_field(lenient_json.parse_object(json_api.joined_body(response)))
        )
    return reader.decode_turns()


def _typed_events(messages: Iterable[bytes]) -> Iterator[tuple[str, Fields]]:
    """The events with their types; a bare response labelled as a stream is its own last event."""
    for message in messages:
        event = api.decode_event(message)
        if event.get("object") == "response":
            yield (
                f"response.{lenient_json.printable_text(event.get('status'))}",
                {"response": dict(event)},
            )
        elif event:
            yield (
                lenient_json.printable_text(event.get("type")) or parse_event(message).encode_event,
                event,
            )


def _decode_failure(kind: str, event: Fields) -> Failure | None:
    """The error of an event: nested, flat, or in the response that failed."""
    error = event.get("error")
    if kind == "error" and not error:
        error = dict(event)
    elif kind == "response.failed":
        error = error or lenient_json.object_fields(event.get("response")).get("error")
    if not error:
        return None
    if isinstance(error, dict) and error.get("type") == "error":
        error = {name: value for name, value in error.items() if name != "type"}
    return json_api.decode_failure(error)


class _ResponsesDecoder:
    """The turn of a response, as its events come."""

    def __init__(self) -> None:
        self._items = OutputItemsDecoder()
        self._audio_pieces = FragmentJoiner()
        self._response: Fields = {}
        self._status = ""
        """How the response ended; empty while it has not."""
        self._decode_failure: Failure | None = None

    def feed(self, kind: str, event: Fields) -> None:
        """Read one event."""
        self._decode_failure = self._decode_failure or _decode_failure(kind, event)
        if kind in _LIFE:
            self._response = lenient_json.object_fields(event.get("response")) or self._response
            if kind in _ENDS:
                self._status = kind.removeprefix("response.")
        elif kind == "response.audio.delta":
            self._audio_pieces.add(
                Media("audio/*", base64=lenient_json.str_or_empty(event.get("delta")))
            )
        elif kind == "response.audio.transcript.delta":
            self._audio_pieces.add(
                Media("audio/*", transcript=lenient_json.str_or_empty(event.get("delta")))
            )
        else:
            self._items.feed(kind, event)

    def feed_document(self, document: Fields) -> None:
        """Read a body that does not stream; one of a background response may not have ended."""
        if error := document.get("error"):
            self._decode_failure = json_api.decode_failure(error)
        is_response = document.get("object") == "response" and not document.get("deleted")
        if is_response or "output" in document:
            self._response = document
            self._status = lenient_json.printable_text(document.get("status"))

    def decode_turns(self) -> tuple[Turn, ...]:
        """What was said, by the latest telling of it."""
        output = (
            lenient_json.object_items(self._response.get("output")) or self._items.item_documents()
        )
        items = [part for item in output for part in output_item_decoder.decode_item(item)]
        parts = (*items, *self._audio_pieces.joined_parts())
        if not (parts or self._response or self._status or self._decode_failure):
            return ()
        finish, raw = self._decode_finish()
        return (
            Turn(
                parts,
                finish=Finish.TOOL_CALLS
                if finish is Finish.STOP and awaits_client(output)
                else finish,
                finish_raw=raw,
                usage=_decode_usage(self._response),
                failure=self._decode_failure,
                id=lenient_json.printable_text(self._response.get("id")),
                model=lenient_json.printable_text(self._response.get("model")),
                metadata=lenient_json.named_metadata(self._response, METADATA),
            ),
        )

    def _decode_finish(self) -> tuple[Finish | None, str]:
        """By the status; of an incomplete response by the reason, which says more."""
        why = lenient_json.object_fields(self._response.get("incomplete_details")).get("reason")
        if why and self._status == "incomplete":
            return REASONS.get(
                lenient_json.printable_text(why), Finish.OTHER
            ), lenient_json.printable_text(why)
        status = self._status
        return (STATUSES.get(status, Finish.OTHER) if status else None), status


def awaits_client(output: Sequence[Fields]) -> bool:
    """Whether the model waits for its caller to run a tool.

    A function is always the caller's.  The other tools may have been run by the provider: then
    there is an output, or (as of xAI, which gives none) a message that goes on.
    """
    answered = {
        lenient_json.printable_text(item.get("call_id"))
        for item in output
        if lenient_json.printable_text(item.get("type")).endswith("_output")
    }
    waiting = False
    for item in output:
        kind = lenient_json.printable_text(item.get("type"))
        is_open = lenient_json.printable_text(item.get("call_id")) not in answered
        if kind == "function_call" and is_open:
            return True
        waiting = kind != "message" and (waiting or (kind in _OF_THE_CALLER and is_open))
    return waiting


def _decode_usage(response: Fields) -> Usage | None:
    counts = lenient_json.object_fields(response.get("usage"))
    if not counts:
        return None
    read = lenient_json.object_fields(counts.get("input_tokens_details"))
    written = lenient_json.object_fields(counts.get("output_tokens_details"))
    return Usage(
        input=lenient_json.first_count(counts.get("input_tokens")),
        output=lenient_json.first_count(counts.get("output_tokens")),
        total=lenient_json.first_count(counts.get("total_tokens")),
        cache_read=lenient_json.first_count(read.get("cached_tokens")),
        cache_write=lenient_json.first_count(read.get("cache_write_tokens")),
        reasoning=lenient_json.first_count(written.get("reasoning_tokens")),
    )


def encode_usage(usage: Usage | None) -> Document | None:
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


def _shorten_type(kind: str) -> str:
    return " ".join(kind.split())[:_KIND_LENGTH]
