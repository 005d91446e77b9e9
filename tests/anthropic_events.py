"""Anthropic responses: literal streams, and builders of events, for the dialect's tests."""

from __future__ import annotations

import json
from typing import Any, Final

from llm_proxy import framing
from llm_proxy.dialects import DialectResponse
from llm_proxy.dialects.anthropic.dialect import Anthropic
from llm_proxy.exchange import Request, ResponseHead
from llm_proxy.turns import Part

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

TOOLS_STREAM: Final = b"""\
event: message_start
data: {"type":"message_start","message":{"id":"msg_2","type":"message","role":"assistant",\
"model":"claude-sonnet-5","content":[],"stop_reason":null,"stop_sequence":null,"usage":\
{"input_tokens":9,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"",\
"signature":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta",\
"thinking":"Two cities."}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta",\
"signature":"c2lnbmF0dXJl"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Checking."}}

event: content_block_stop
data: {"type":"content_block_stop","index":1}

event: content_block_start
data: {"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"toolu_a",\
"name":"get_weather","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta",\
"partial_json":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta",\
"partial_json":"{\\"city\\": "}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta",\
"partial_json":"\\"Rome\\"}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":2}

event: content_block_start
data: {"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"toolu_b",\
"name":"get_time","input":{}}}

event: content_block_stop
data: {"type":"content_block_stop","index":3}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":\
{"output_tokens":40,"output_tokens_details":{"thinking_tokens":7}}}

event: message_stop
data: {"type":"message_stop"}

"""
"""The minimal stream of thinking, text and two tool calls, the second without arguments."""

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


def response_head(
    status: int = 200, content_type: str = "text/event-stream; charset=utf-8"
) -> ResponseHead:
    headers = (("Content-Type", content_type),) if content_type else ()
    return ResponseHead(status, "Bad Gateway" if status == 502 else "", headers, "chunked")


def sse_response(body: bytes) -> DialectResponse:
    return DialectResponse(response_head(), "sse", framing.split_messages("sse", body))


def whole_response(body: bytes, status: int = 200) -> DialectResponse:
    return DialectResponse(
        response_head(status, "application/json"), "whole", framing.split_messages("whole", body)
    )


def json_response(**fields: object) -> DialectResponse:
    return whole_response(json.dumps(fields).encode())


def sse_event(event_type: str, **fields: object) -> bytes:
    data = json.dumps({"type": event_type, **fields})
    return f"event: {event_type}\ndata: {data}\n\n".encode()


def block_start(block: dict[str, Any], index: int = 0) -> bytes:
    return sse_event("content_block_start", index=index, content_block=block)


def block_delta(delta_type: str, index: int = 0, **fields: object) -> bytes:
    return sse_event("content_block_delta", index=index, delta={"type": delta_type, **fields})


def text_delta(text: str, index: int = 0) -> bytes:
    return block_delta("text_delta", index, text=text)


def message_delta(reason: str | None, **delta: object) -> bytes:
    return sse_event("message_delta", delta={"stop_reason": reason, **delta}, usage={})


def decode_blocks(*blocks: dict[str, Any]) -> tuple[Part, ...]:
    """The parts of a message with these blocks; asserts that a stream of them decodes alike."""
    (turn,) = DIALECT.decode_response(json_response(type="message", content=blocks))
    events = (
        block_start(block, index) + sse_event("content_block_stop", index=index)
        for index, block in enumerate(blocks)
    )
    assert DIALECT.decode_response(sse_response(b"".join(events))) == (turn,)
    return turn.parts


MESSAGE_STOP: Final = sse_event("message_stop")

ERROR_EVENT: Final = sse_event(
    "error",
    error={"details": None, "type": "overloaded_error", "message": "Overloaded"},
    request_id="req_1",
)
