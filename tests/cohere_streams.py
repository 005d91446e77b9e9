"""Cohere responses, as in its documentation and in recordings."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from dialect_responses import framed_response
from llm_proxy.dialects import DialectResponse

DONE_EVENT: Final = b"data: [DONE]\n\n"
USAGE: Final[dict[str, Any]] = {
    "billed_units": {"input_tokens": 12, "output_tokens": 13},
    "warnings": ["old"],
    "tokens": {
        "input_tokens": 500, "output_tokens": 20, "reasoning_tokens": 7, "image_tokens": 259,
    },
    "cached_tokens": 448,
}  # fmt: skip
_MESSAGE: Final = {
    "role": "assistant", "content": [], "tool_plan": "", "tool_calls": [], "citations": [],
}  # fmt: skip
MESSAGE_START: Final = {"id": "co-1", "type": "message-start", "delta": {"message": _MESSAGE}}


def v2_event(kind: str, index: int | None = None, **message: object) -> dict[str, Any]:
    """An event of the v2 Chat API, with these fields of a message."""
    index_field = {} if index is None else {"index": index}
    return {"type": kind, **index_field, **({"delta": {"message": message}} if message else {})}


def block_events(
    index: int, kind: str, *pieces: str, within: Iterable[Any] = ()
) -> list[dict[str, Any]]:
    """The events of a text or of thoughts, and those `within`: of its citations."""
    return [
        v2_event("content-start", index, content={"type": kind, kind: ""}),
        *(v2_event("content-delta", index, content={kind: piece}) for piece in pieces),
        *within,
        v2_event("content-end", index),
    ]


def plan_events(*pieces: str) -> list[dict[str, Any]]:
    """The events of a tool plan."""
    return [v2_event("tool-plan-delta", tool_plan=piece) for piece in pieces]


def call_events(index: int, id_: str, name: str, *pieces: str) -> list[dict[str, Any]]:
    """The events of a tool call."""
    call = {"id": id_, "type": "function", "function": {"name": name, "arguments": ""}}
    deltas = [{"function": {"arguments": piece}} for piece in pieces]
    return [
        v2_event("tool-call-start", index, tool_calls=call),
        *(v2_event("tool-call-delta", index, tool_calls=delta) for delta in deltas),
        v2_event("tool-call-end", index),
    ]


def citation_events(*citations: object) -> list[dict[str, Any]]:
    """The events of these citations."""
    return [
        event
        for index, citation in enumerate(citations)
        for event in (
            v2_event("citation-start", index, citations=citation),
            v2_event("citation-end", index),
        )
    ]


def v2_stream(*events: Any, reason: str = "COMPLETE", **end: object) -> bytes:
    """A stream of the v2 Chat API without `[DONE]`, with these fields in its last event."""
    delta = {"finish_reason": reason, "usage": USAGE, **end}
    return sse_body(MESSAGE_START, *events, {"type": "message-end", "delta": delta})


def sse_body(*events: Any) -> bytes:
    """The SSE body of v2 events, without `[DONE]`."""
    return b"".join(
        b"event: %s\ndata: %s\n\n" % (event["type"].encode(), compact_json(event))
        for event in events
    )


def ndjson_body(*documents: Any) -> bytes:
    """The NDJSON body of v1 events."""
    return b"".join(compact_json(document) + b"\n" for document in documents)


def compact_json(document: Any) -> bytes:
    """A document without spaces or escapes."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


TEXT_EVENTS: Final = (
    *block_events(0, "thinking", "I s", "hould greet."),
    *block_events(1, "text", "Hel", "lo"),
)
CALL_EVENTS: Final = (
    *plan_events("I w", "ill check."),
    *call_events(0, "a", "weather", '{"c', 'ity":"Rome"}'),
    *call_events(1, "b", "clock", "{}"),
)
TEXT_STREAM: Final = v2_stream(*TEXT_EVENTS)
TOOLS_STREAM: Final = v2_stream(*CALL_EVENTS, reason="TOOL_CALL")
FAILED_STREAM: Final = v2_stream(
    *plan_events("I w", "ill"), reason="ERROR", usage={},
    error="invalid tool generation", error_type="INVALID_TOOLS",
)  # fmt: skip
V1_DOCUMENT: Final = {
    "response_id": "r-1",
    "generation_id": "g-1",
    "text": "Hello",
    "chat_history": [{"role": "USER", "message": "Hi"}],
    "finish_reason": "COMPLETE",
    "meta": {
        "api_version": {"version": "1"},
        "billed_units": {"input_tokens": 4, "output_tokens": 2},
        "tokens": {"input_tokens": 69, "output_tokens": 2},
    },
}
V1_STREAM: Final = ndjson_body(
    {"is_finished": False, "event_type": "stream-start", "generation_id": "g-1"},
    {"is_finished": False, "event_type": "text-generation", "text": "Hel"},
    {"is_finished": False, "event_type": "text-generation", "text": "lo"},
    {
        "is_finished": True, "event_type": "stream-end", "response": V1_DOCUMENT,
        "finish_reason": "COMPLETE",
    },
)  # fmt: skip


def json_response(document: object) -> DialectResponse:
    """A response of one JSON document."""
    return framed_response("whole", compact_json(document))
