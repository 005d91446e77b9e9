"""Answers of Cohere's, as its documentation and its recordings spell them."""

from __future__ import annotations

import json
from typing import Any, Final

from llm_proxy import framing
from llm_proxy.dialects import DialectResponse
from llm_proxy.exchange import ResponseHead

DONE: Final = b"data: [DONE]\n\n"
OPENING: Final = {
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


def event(kind: str, index: int | None = None, message: object = None, **delta: object) -> Any:
    """An event of version 2."""
    place = {} if index is None else {"index": index}
    said = delta if message is None else {"message": message, **delta}
    return {"type": kind, **place, **({"delta": said} if said else {})}


def content(kind: str, index: int, **block: object) -> Any:
    """An event about a block of content."""
    return event(f"content-{kind}", index, {"content": block} if block else None)


def call(kind: str, index: int, **fields: object) -> Any:
    """An event about a tool call."""
    return event(f"tool-call-{kind}", index, {"tool_calls": fields} if fields else None)


def ending(reason: str, **more: object) -> Any:
    """The event that ends a message, with the counts of the templates."""
    counts = {"input_tokens": 9, "output_tokens": 5}
    usage = {"billed_units": counts, "tokens": counts}
    said = {"finish_reason": reason, "usage": usage, **more}
    return {"type": "message-end", "delta": said}


def sse(*events: Any) -> bytes:
    """Events of version 2 as a server writes them, without `[DONE]`."""
    return b"".join(
        b"event: %s\ndata: %s\n\n" % (item["type"].encode(), _json(item)) for item in events
    )


def lines(*documents: Any) -> bytes:
    """Lines of version 1."""
    return b"".join(_json(document) + b"\n" for document in documents)


def _json(document: Any) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


TEXT: Final = sse(
    OPENING,
    content("start", 0, type="thinking", thinking=""),
    content("delta", 0, thinking="I should greet."),
    content("end", 0),
    content("start", 1, type="text", text=""),
    content("delta", 1, text="Hel"),
    content("delta", 1, text="lo"),
    content("end", 1),
    ending("COMPLETE"),
)
TOOLS: Final = sse(
    OPENING,
    event("tool-plan-delta", message={"tool_plan": "I will "}),
    event("tool-plan-delta", message={"tool_plan": "check."}),
    call("start", 0, id="a", type="function", function={"name": "weather", "arguments": ""}),
    call("delta", 0, function={"arguments": '{"city":'}),
    call("delta", 0, function={"arguments": '"Rome"}'}),
    call("end", 0),
    call("start", 1, id="b", type="function", function={"name": "clock", "arguments": ""}),
    call("end", 1),
    ending("TOOL_CALL"),
)
FAILED: Final = sse(
    OPENING,
    event("tool-plan-delta", message={"tool_plan": "I will"}),
    ending("ERROR", usage={}, error="invalid tool generation", error_type="INVALID_TOOLS"),
)
CHAT: Final = lines(
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


def head(status: int = 200, content_type: str = "text/event-stream") -> ResponseHead:
    """The head of an answer."""
    named = (("Content-Type", content_type),) if content_type else ()
    return ResponseHead(status, "", named, "chunked")


def answer(codec: str, body: bytes, status: int = 200) -> DialectResponse:
    """An answer, cut by a codec."""
    return DialectResponse(head(status), codec, framing.split_messages(codec, body))


def document(said: object, status: int = 200) -> DialectResponse:
    """An answer of one document."""
    return answer("whole", _json(said), status)
