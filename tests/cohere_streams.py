"""Cohere responses, as in its documentation and in recordings."""

from __future__ import annotations

import json
from typing import Any, Final

from llm_proxy import framing
from llm_proxy.dialects import DialectResponse
from llm_proxy.exchange import ResponseHead

DONE_EVENT: Final = b"data: [DONE]\n\n"
MESSAGE_START: Final = {
    "id": "co-1",
    "type": "message-start",
    "delta": {
        "message": {
            "role": "assistant",
            "content": [],
            "tool_plan": "",
            "tool_calls": [],
            "citations": [],
        }
    },
}


def v2_event(
    event_type: str, index: int | None = None, message: object = None, **delta: object
) -> Any:
    """An event of the v2 Chat API."""
    index_field = {} if index is None else {"index": index}
    delta_fields = delta if message is None else {"message": message, **delta}
    return {"type": event_type, **index_field, **({"delta": delta_fields} if delta_fields else {})}


def content_event(phase: str, index: int, **block: object) -> Any:
    """A content event of v2: `content-start`, `content-delta` or `content-end`."""
    return v2_event(f"content-{phase}", index, {"content": block} if block else None)


def tool_call_event(phase: str, index: int, **fields: object) -> Any:
    """A tool call event of v2: `tool-call-start`, `tool-call-delta` or `tool-call-end`."""
    return v2_event(f"tool-call-{phase}", index, {"tool_calls": fields} if fields else None)


def message_end_event(reason: str, **extra: object) -> Any:
    """The `message-end` event of v2, with fixed token counts."""
    counts = {"input_tokens": 9, "output_tokens": 5}
    usage = {"billed_units": counts, "tokens": counts}
    delta = {"finish_reason": reason, "usage": usage, **extra}
    return {"type": "message-end", "delta": delta}


def sse_body(*events: Any) -> bytes:
    """The SSE body of v2 events, without `[DONE]`."""
    return b"".join(
        b"event: %s\ndata: %s\n\n" % (event["type"].encode(), _compact_json(event))
        for event in events
    )


def ndjson_body(*documents: Any) -> bytes:
    """The NDJSON body of v1 events."""
    return b"".join(_compact_json(document) + b"\n" for document in documents)


def _compact_json(document: Any) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


TEXT_STREAM: Final = sse_body(
    MESSAGE_START,
    content_event("start", 0, type="thinking", thinking=""),
    content_event("delta", 0, thinking="I should greet."),
    content_event("end", 0),
    content_event("start", 1, type="text", text=""),
    content_event("delta", 1, text="Hel"),
    content_event("delta", 1, text="lo"),
    content_event("end", 1),
    message_end_event("COMPLETE"),
)
TOOLS_STREAM: Final = sse_body(
    MESSAGE_START,
    v2_event("tool-plan-delta", message={"tool_plan": "I will "}),
    v2_event("tool-plan-delta", message={"tool_plan": "check."}),
    tool_call_event(
        "start", 0, id="a", type="function", function={"name": "weather", "arguments": ""}
    ),
    tool_call_event("delta", 0, function={"arguments": '{"city":'}),
    tool_call_event("delta", 0, function={"arguments": '"Rome"}'}),
    tool_call_event("end", 0),
    tool_call_event(
        "start", 1, id="b", type="function", function={"name": "clock", "arguments": ""}
    ),
    tool_call_event("end", 1),
    message_end_event("TOOL_CALL"),
)
FAILED_STREAM: Final = sse_body(
    MESSAGE_START,
    v2_event("tool-plan-delta", message={"tool_plan": "I will"}),
    message_end_event(
        "ERROR", usage={}, error="invalid tool generation", error_type="INVALID_TOOLS"
    ),
)
V1_STREAM: Final = ndjson_body(
    {"is_finished": False, "event_type": "stream-start", "generation_id": "g-1"},
    {"is_finished": False, "event_type": "text-generation", "text": "Hel"},
    {"is_finished": False, "event_type": "text-generation", "text": "lo"},
    {
        "is_finished": True,
        "event_type": "stream-end",
        "response": {
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
        },
        "finish_reason": "COMPLETE",
    },
)


def response_head(status: int = 200, content_type: str = "text/event-stream") -> ResponseHead:
    """The head of a response."""
    headers = (("Content-Type", content_type),) if content_type else ()
    return ResponseHead(status, "", headers, "chunked")


def framed_response(codec: str, body: bytes, status: int = 200) -> DialectResponse:
    """A response whose body is split into messages by a codec."""
    return DialectResponse(response_head(status), codec, framing.split_messages(codec, body))


def json_response(document: object, status: int = 200) -> DialectResponse:
    """A response of one JSON document."""
    return framed_response("whole", _compact_json(document), status)
