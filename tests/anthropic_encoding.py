"""Responses as the Anthropic dialect encodes them, for the tests of its encoder."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from anthropic_events import DIALECT, anthropic_request, sse_response
from dialect_manners import ENCODE_CONTEXT
from llm_proxy.dialects import DialectResponse
from llm_proxy.exchange import Request
from llm_proxy.framing.sse import parse_event
from llm_proxy.turns import Part, Turn

STREAM_REQUEST: Final = anthropic_request(model="claude-sonnet-5", stream=True)
WHOLE_REQUEST: Final = anthropic_request(model="claude-sonnet-5")
VERTEX_REQUEST: Final = anthropic_request(
    "/v1/projects/p/locations/l/publishers/anthropic/models/m:streamRawPredict"
)
COMPLETION_REQUEST: Final = anthropic_request("/v1/complete", model="claude-2.1", stream=True)
PING_EVENT: Final = {"type": "ping"}

TEXT_PIECES: Final = {
    "Hello": ("Hel", "lo"),
    " Hi you": (" Hi", " you"),
    '{"city": "Rome"}': ('{"city": ', '"Rome"}'),
}
"""How the literal streams split their texts; a text that is not here is in one piece."""


def split_text(text: str) -> Iterable[str]:
    return TEXT_PIECES.get(text, (text,) if text else ())


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
    context = replace(ENCODE_CONTEXT, split_text=split_text)
    return event_documents(DIALECT.encode_response(request, (Turn(parts, **turn_fields),), context))


def encode_message(*parts: Part, **turn_fields: Any) -> dict[str, Any]:
    """The JSON message that these parts are encoded as."""
    document: dict[str, Any] = json.loads(
        b"".join(
            DIALECT.encode_response(
                WHOLE_REQUEST, (Turn(parts, **turn_fields),), ENCODE_CONTEXT
            ).framed_messages
        )
    )
    return document


def reencode_events(body: bytes, request: Request) -> list[dict[str, Any]]:
    """The event payloads of this stream, decoded and encoded again."""
    context = replace(ENCODE_CONTEXT, split_text=split_text)
    return event_documents(
        DIALECT.encode_response(request, DIALECT.decode_response(sse_response(body)), context)
    )


def block_and_deltas(events: list[dict[str, Any]], index: int = 0) -> list[dict[str, Any]]:
    """The `content_block` that starts a block, and its deltas."""
    block_events = [event for event in events if event.get("index") == index]
    assert block_events[-1] == {"type": "content_block_stop", "index": index}
    return [block_events[0]["content_block"], *(event["delta"] for event in block_events[1:-1])]
