"""Anthropic's answers as they are told, for the tests of what its dialect tells."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from anthropic_events import DIALECT, asked, streamed
from dialect_manners import DELIVERY
from llm_proxy.dialects import DialectResponse
from llm_proxy.exchange import Request
from llm_proxy.framing.sse import parse_event
from llm_proxy.turns import Part, Turn

STREAM: Final = asked(model="claude-sonnet-5", stream=True)
WHOLE: Final = asked(model="claude-sonnet-5")
VERTEX: Final = asked("/v1/projects/p/locations/l/publishers/anthropic/models/m:streamRawPredict")
LEGACY: Final = asked("/v1/complete", model="claude-2.1", stream=True)
PING: Final = {"type": "ping"}

PIECES: Final = {
    "Hello": ("Hel", "lo"),
    " Hi you": (" Hi", " you"),
    '{"city": "Rome"}': ('{"city": ', '"Rome"}'),
}
"""Where the spelled-out streams are cut; what is not here stands there in one piece."""


def cut(text: str) -> Iterable[str]:
    return PIECES.get(text, (text,) if text else ())


def documents(response: DialectResponse) -> list[dict[str, Any]]:
    """The events of a stream, each of which is named as its document says."""
    events = [parse_event(message) for message in response.messages]
    said = [json.loads(event.data or b"") for event in events]
    assert [event.encode_event for event in events] == [document["type"] for document in said]
    return said


def told(*parts: Part, request: Request = STREAM, **about: Any) -> list[dict[str, Any]]:
    """The events that tell these parts."""
    delivery = replace(DELIVERY, split_text=cut)
    return documents(DIALECT.encode(request, (Turn(parts, **about),), delivery))


def message(*parts: Part, **about: Any) -> dict[str, Any]:
    """The document that tells these parts."""
    said: dict[str, Any] = json.loads(
        b"".join(DIALECT.encode(WHOLE, (Turn(parts, **about),), DELIVERY).messages)
    )
    return said


def retold(body: bytes, request: Request) -> list[dict[str, Any]]:
    """The events that tell what this stream says."""
    delivery = replace(DELIVERY, split_text=cut)
    return documents(DIALECT.encode(request, DIALECT.decode(streamed(body)), delivery))


def grown(events: list[dict[str, Any]], index: int = 0) -> list[dict[str, Any]]:
    """What a block begins as, and its deltas."""
    of_block = [event for event in events if event.get("index") == index]
    assert of_block[-1] == {"type": "content_block_stop", "index": index}
    return [of_block[0]["content_block"], *(item["delta"] for item in of_block[1:-1])]
