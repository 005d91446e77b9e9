"""Decodes a Responses API response from events or a document."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from llm_proxy.dialects import json_api, lenient_json
from llm_proxy.dialects.base import Completeness, DialectResponse
from llm_proxy.dialects.fragments import FragmentJoiner
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.openai import output_item_decoder, shared_format
from llm_proxy.dialects.openai.output_items_assembler import OutputItemsAssembler
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.framing.sse import parse_event
from llm_proxy.turns import (
    Failure,
    FinishReason,
    Media,
    Turn,
    Usage,
)

PENDING_STATUSES: Final = ("queued", "in_progress")
"""Statuses of a response that is not finished."""

FINISH_BY_STATUS: Final = {
    "completed": FinishReason.STOP,
    "incomplete": FinishReason.OTHER,
    "failed": FinishReason.ERROR,
    "cancelled": FinishReason.OTHER,
    **dict.fromkeys(PENDING_STATUSES, FinishReason.PAUSED),
}
"""The `FinishReason` of each response `status`."""

FINISH_BY_INCOMPLETE_REASON: Final = {
    "max_output_tokens": FinishReason.LENGTH,
    "content_filter": FinishReason.CONTENT_FILTER,
}
"""The `FinishReason` of each `incomplete_details.reason`."""

_FINAL_EVENT_TYPES: Final = frozenset(
    f"response.{status}" for status in FINISH_BY_STATUS if status not in PENDING_STATUSES
)
_RESPONSE_EVENT_TYPES: Final = frozenset(
    (*_FINAL_EVENT_TYPES, "response.created", *(f"response.{pause}" for pause in PENDING_STATUSES))
)
"""The types of events that hold a response."""

_CLIENT_CALL_TYPES: Final = frozenset(
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
"""Types of items that may wait for the client, beside `function_call`."""

_MAX_TYPE_CHARS: Final = 60
"""Characters of an event type that fit into a completeness reason."""

METADATA_FIELDS: Final = (
    "service_tier",
    "previous_response_id",
    "conversation",
    "moderation",
    "content_filters",
    "tool_usage",
)
"""The fields of a response that become a turn's metadata."""


def completeness(response: DialectResponse) -> Completeness:
    """Complete at the event with the whole response, or at an error in the stream."""
    if response.codec_name != "sse" or not json_api.succeeded(response.head):
        return json_api.completeness(response)
    last_type = ""
    for kind, event in _typed_events(reversed(response.framed_messages)):
        if failure := _decode_failure(kind, event):
            return json_api.completed_by_error(failure)
        if kind in _FINAL_EVENT_TYPES:
            return Completeness(is_complete=True, reason=kind)
        last_type = last_type or kind
    if last_type:
        return Completeness(
            is_complete=False, reason=f"no response.completed after {_shorten_type(last_type)}"
        )
    data = json_api.joined_body(response).strip()
    return Completeness(is_complete=False, reason="no event" if data else "empty stream")


def decode_response(response: DialectResponse) -> tuple[Turn, ...]:
    """One turn, or none where the body holds no response."""
    if not json_api.succeeded(response.head):
        return (Turn((), failure=json_api.decode_http_error(response)),)
    decoder = _ResponsesDecoder()
    if response.codec_name == "sse":
        for kind, event in _typed_events(response.framed_messages):
            decoder.feed(kind, event)
    else:
        decoder.feed_whole_response(
            shared_format.wrap_error_object(
                lenient_json.parse_object(json_api.joined_body(response))
            )
        )
    return decoder.build_turns()


def _typed_events(messages: Iterable[bytes]) -> Iterator[tuple[str, Fields]]:
    """Type and fields of each event; a bare response sent as a stream counts as its last event."""
    for message in messages:
        event = shared_format.decode_event(message)
        if event.get("object") == "response":
            yield (
                f"response.{lenient_json.value_as_text(event.get('status'))}",
                {"response": dict(event)},
            )
        elif event:
            yield (
                lenient_json.value_as_text(event.get("type")) or parse_event(message).event_type,
                event,
            )


def _decode_failure(kind: str, event: Fields) -> Failure | None:
    """The error of an event: nested, flat, or in the failed response; None without one."""
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
    """Decodes the turn of a response from its events or its document."""

    def __init__(self) -> None:
        self._items_assembler = OutputItemsAssembler()
        self._audio_joiner = FragmentJoiner()
        self._response_document: Fields = {}
        self._status = ""
        """The final status of the response; empty until then."""
        self._failure: Failure | None = None

    def feed(self, kind: str, event: Fields) -> None:
        """Decode one event."""
        self._failure = self._failure or _decode_failure(kind, event)
        if kind in _RESPONSE_EVENT_TYPES:
            self._response_document = (
                lenient_json.object_fields(event.get("response")) or self._response_document
            )
            if kind in _FINAL_EVENT_TYPES:
                self._status = kind.removeprefix("response.")
        elif kind == "response.audio.delta":
            self._audio_joiner.add_fragment(
                Media("audio/*", base64=lenient_json.str_or_empty(event.get("delta")))
            )
        elif kind == "response.audio.transcript.delta":
            self._audio_joiner.add_fragment(
                Media("audio/*", transcript=lenient_json.str_or_empty(event.get("delta")))
            )
        else:
            self._items_assembler.feed(kind, event)

    def feed_whole_response(self, document: Fields) -> None:
        """Decode the document of an unstreamed response; a background one may be pending."""
        if error := document.get("error"):
            self._failure = json_api.decode_failure(error)
        is_response = document.get("object") == "response" and not document.get("deleted")
        if is_response or "output" in document:
            self._response_document = document
            self._status = lenient_json.value_as_text(document.get("status"))

    def build_turns(self) -> tuple[Turn, ...]:
        """The turn so far, from the latest copy of each item; none where there is nothing."""
        output = (
            lenient_json.array_objects(self._response_document.get("output"))
            or self._items_assembler.assembled_items()
        )
        items = [part for item in output for part in output_item_decoder.decode_item(item)]
        parts = (*items, *self._audio_joiner.joined_parts())
        if not (parts or self._response_document or self._status or self._failure):
            return ()
        finish, raw = self._decode_finish()
        return (
            Turn(
                parts,
                finish=FinishReason.TOOL_CALLS
                if finish is FinishReason.STOP and awaits_tool_results(output)
                else finish,
                finish_raw=raw,
                usage=_decode_usage(self._response_document),
                failure=self._failure,
                id=lenient_json.value_as_text(self._response_document.get("id")),
                model=lenient_json.value_as_text(self._response_document.get("model")),
                metadata=lenient_json.select_metadata(self._response_document, METADATA_FIELDS),
            ),
        )

    def _decode_finish(self) -> tuple[FinishReason | None, str]:
        """The finish and its raw value: the incomplete reason if there is one, else the status."""
        reason = lenient_json.object_fields(self._response_document.get("incomplete_details")).get(
            "reason"
        )
        if reason and self._status == "incomplete":
            return FINISH_BY_INCOMPLETE_REASON.get(
                lenient_json.value_as_text(reason), FinishReason.OTHER
            ), lenient_json.value_as_text(reason)
        status = self._status
        return (FINISH_BY_STATUS.get(status, FinishReason.OTHER) if status else None), status


def awaits_tool_results(output: Sequence[Fields]) -> bool:
    """Whether the model waits for the client to run a tool.

    The client always runs functions.  The provider may have run the other tools: then there is an
    output, or (at xAI, which sends none) a later message.
    """
    answered_call_ids = {
        lenient_json.value_as_text(item.get("call_id"))
        for item in output
        if lenient_json.value_as_text(item.get("type")).endswith("_output")
    }
    is_waiting = False
    for item in output:
        kind = lenient_json.value_as_text(item.get("type"))
        is_unanswered = lenient_json.value_as_text(item.get("call_id")) not in answered_call_ids
        if kind == "function_call" and is_unanswered:
            return True
        is_waiting = kind != "message" and (
            is_waiting or (kind in _CLIENT_CALL_TYPES and is_unanswered)
        )
    return is_waiting


def _decode_usage(response: Fields) -> Usage | None:
    usage_fields = lenient_json.object_fields(response.get("usage"))
    if not usage_fields:
        return None
    input_details = lenient_json.object_fields(usage_fields.get("input_tokens_details"))
    output_details = lenient_json.object_fields(usage_fields.get("output_tokens_details"))
    return Usage(
        input=lenient_json.first_integer(usage_fields.get("input_tokens")),
        output=lenient_json.first_integer(usage_fields.get("output_tokens")),
        total=lenient_json.first_integer(usage_fields.get("total_tokens")),
        cache_read=lenient_json.first_integer(input_details.get("cached_tokens")),
        cache_write=lenient_json.first_integer(input_details.get("cache_write_tokens")),
        reasoning=lenient_json.first_integer(output_details.get("reasoning_tokens")),
    )


def encode_usage(usage: Usage | None) -> Document | None:
    """The `usage` object; None without usage."""
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
    return " ".join(kind.split())[:_MAX_TYPE_CHARS]
