"""Anthropic responses: literal streams, builders of events, and what a turn is encoded as."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from dialect_manners import SPLIT_CONTEXT
from dialect_responses import whole_response
from llm_proxy.dialects import DialectResponse
from llm_proxy.dialects.anthropic.dialect import Anthropic
from llm_proxy.exchange import Request
from llm_proxy.framing.sse import parse_event
from llm_proxy.turns import Part, Turn

Fields = Mapping[str, Any]

DIALECT: Final = Anthropic()
VERSION_HEADERS: Final = (("Anthropic-Version", "2026-10-21"),)

TEXT_STREAM: Final = b"""\
event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant",\
"model":"claude-sonnet-5","content":[],"stop_reason":null,"stop_sequence":null,"usage":\
{"input_tokens":9,"cache_creation_input_tokens":3,"cache_read_input_tokens":4,"output_tokens":1,\
"service_tier":"standard"}}      }

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}   }

event: ping
data: {"type": "ping"}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hel"}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"lo"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0  }

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":\
{"input_tokens":9,"cache_creation_input_tokens":3,"cache_read_input_tokens":4,"output_tokens":2}}

event: message_stop
data: {"type":"message_stop"   }

"""
"""The minimal text stream, with the padding of real ones."""

COMPLETION_STREAM: Final = b"""\
event: completion\r
data: {"type":"completion","id":"compl_1","completion":" Hi","stop_reason":null,\
"model":"claude-2.1","stop":null,"log_id":"compl_1"    }\r
\r
event: ping\r
data: {"type": "ping"}\r
\r
event: completion\r
data: {"type":"completion","id":"compl_1","completion":" you","stop_reason":"stop_sequence",\
"model":"claude-2.1","stop":"\\n\\nHuman:","log_id":"compl_1"}\r
\r
"""
"""A stream of the legacy Text Completions API, with its CRLF line ends."""


def anthropic_request(
    path: str = "/v1/messages",
    method: str = "POST",
    headers: tuple[tuple[str, str], ...] = (),
    **body: object,
) -> Request:
    return Request(method, path, "", headers, json.dumps(body).encode())


STREAM_REQUEST: Final = anthropic_request(model="claude-sonnet-5", stream=True)
WHOLE_REQUEST: Final = anthropic_request(model="claude-sonnet-5")


def json_response(**fields: object) -> DialectResponse:
    return whole_response(json.dumps(fields).encode())


def sse_event(event_type: str, **fields: object) -> bytes:
    data = json.dumps({"type": event_type, **fields})
    return f"event: {event_type}\ndata: {data}\n\n".encode()


def message_start(**fields: object) -> bytes:
    message: dict[str, object] = {
        "id": "msg_2", "type": "message", "role": "assistant", "model": "claude-sonnet-5",
        "content": [], "stop_reason": None, "stop_sequence": None,
    }  # fmt: skip
    return sse_event("message_start", message={**message, **fields})


def block_start(block: Fields, index: int = 0) -> bytes:
    return sse_event("content_block_start", index=index, content_block=block)


def block_delta(delta_type: str, index: int = 0, **fields: object) -> bytes:
    return sse_event("content_block_delta", index=index, delta={"type": delta_type, **fields})


def block_events(block: Fields, *deltas: Fields, index: int = 0, ping: bytes = b"") -> bytes:
    """All events of a block, with a ping behind the first."""
    events = (sse_event("content_block_delta", index=index, delta=delta) for delta in deltas)
    stop = sse_event("content_block_stop", index=index)
    return b"".join([block_start(block, index), ping, *events, stop])


def text_delta(text: str, index: int = 0) -> bytes:
    return block_delta("text_delta", index, text=text)


def message_delta(reason: str | None, **delta: object) -> bytes:
    return sse_event("message_delta", delta={"stop_reason": reason, **delta}, usage={})


PING: Final = sse_event("ping")
MESSAGE_STOP: Final = sse_event("message_stop")
ERROR_EVENT: Final = sse_event(
    "error",
    error={"details": None, "type": "overloaded_error", "message": "Overloaded"},
    request_id="req_1",
)

TOOLS_STREAM: Final = b"".join([
    message_start(
        diagnostics={"cache": 1},
        usage={"input_tokens": 9, "output_tokens": 1, "service_tier": "standard"},
    ),
    block_events(
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "Two"},
        {"type": "thinking_delta", "thinking": " cities."},
        {"type": "signature_delta", "signature": "c2lnbmF0dXJl"},
        ping=PING,
    ),
    block_events(
        {"type": "text", "text": ""},
        {"type": "text_delta", "text": "Che"}, {"type": "text_delta", "text": "cking."}, index=1,
    ),
    block_events(
        {"type": "tool_use", "id": "toolu_a", "name": "get_weather", "input": {}},
        {"type": "input_json_delta", "partial_json": ""},
        {"type": "input_json_delta", "partial_json": '{"c'},
        {"type": "input_json_delta", "partial_json": 'ity": "Rome"}'},
        index=2,
    ),
    block_events(
        {"type": "tool_use", "id": "toolu_b", "name": "get_time", "input": {}},
        {"type": "input_json_delta", "partial_json": ""}, index=3,
    ),
    sse_event(
        "message_delta",
        delta={"stop_reason": "tool_use", "stop_sequence": None, "container": {"id": "c"}},
        usage={
            "input_tokens": 9, "output_tokens": 40, "output_tokens_details": {"thinking_tokens": 7},
            "server_tool_use": {"web_search_requests": 1},
        },
        context_management={"applied_edits": []},
    ),
    MESSAGE_STOP,
])  # fmt: skip
"""Thinking, text and two tool calls, the second without arguments, and all fields around them."""


def event_documents(response: DialectResponse) -> list[dict[str, Any]]:
    """The payloads of a stream's events; asserts that each event's name is its payload's type."""
    events = [parse_event(message) for message in response.framed_messages]
    payloads = [json.loads(event.data or b"") for event in events]
    assert [event.event_type for event in events] == [document["type"] for document in payloads]
    return payloads


def encode_events(
    *parts: Part, request: Request = STREAM_REQUEST, **turn_fields: Any
) -> list[dict[str, Any]]:
    """The event payloads that these parts are encoded as."""
    turn = Turn(parts, **turn_fields)
    return event_documents(DIALECT.encode_response(request, (turn,), SPLIT_CONTEXT))


def encode_message(*parts: Part, **turn_fields: Any) -> dict[str, Any]:
    """The JSON message that these parts are encoded as."""
    response = DIALECT.encode_response(WHOLE_REQUEST, (Turn(parts, **turn_fields),), SPLIT_CONTEXT)
    document: dict[str, Any] = json.loads(b"".join(response.framed_messages))
    return document


def block_and_deltas(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The `content_block` that starts the first block, and its deltas."""
    block_events = [event for event in events if event.get("index") == 0]
    assert block_events[-1] == {"type": "content_block_stop", "index": 0}
    return [block_events[0]["content_block"], *(event["delta"] for event in block_events[1:-1])]
