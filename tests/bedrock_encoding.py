"""What Bedrock is told to say, as a client would see it: frames, taken apart."""

from __future__ import annotations

import base64
from typing import Any, Final

import orjson

from dialect_manners import DELIVERY, asking
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.bedrock.dialect import Bedrock
from llm_proxy.exchange import Request
from llm_proxy.framing.eventstream import Frame, parse_frame
from llm_proxy.turns import Turn

DIALECT: Final = Bedrock()

Event = tuple[str, Any]
"""The type of an event or an exception, and its payload."""


def converse(model: str = "us.amazon.nova-2-lite-v1:0", *, stream: bool = True) -> Request:
    """A request for Converse."""
    return DIALECT.sample_request(model, stream=stream)


def invoke(model: str, *, stream: bool = True, **body: Any) -> Request:
    """A request to a model in its own format."""
    operation = "invoke-with-response-stream" if stream else "invoke"
    return asking(f"/model/{model}/{operation}", **body)


def told(request: Request, *turns: Turn) -> DialectResponse:
    """What is answered."""
    return DIALECT.encode(request, turns, DELIVERY)


def document(response: DialectResponse) -> Any:
    """The one document of an answer."""
    assert response.codec == "whole"
    return orjson.loads(b"".join(response.messages))


def frames(response: DialectResponse) -> list[Frame]:
    """The frames of a stream; each message is one."""
    assert response.codec == "eventstream"
    read = [parse_frame(message) for message in response.messages]
    assert None not in read
    return [item for item in read if item is not None]


def events(response: DialectResponse) -> list[Event]:
    """Its events, and the exception that ends it."""
    return [
        (
            frame.header(":event-type") or frame.header(":exception-type"),
            orjson.loads(frame.payload),
        )
        for frame in frames(response)
    ]


def natives(response: DialectResponse) -> list[Any]:
    """The events of a model's own."""
    told = events(response)
    assert {name for name, _ in told} == {"chunk"}
    return [orjson.loads(base64.b64decode(said["bytes"])) for _, said in told]
