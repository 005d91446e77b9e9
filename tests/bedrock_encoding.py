"""Responses as the Bedrock dialect encodes them, parsed into frames, events and documents."""

from __future__ import annotations

import base64
from typing import Any, Final

import orjson

from dialect_manners import ENCODE_CONTEXT, json_request
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.bedrock.dialect import Bedrock
from llm_proxy.exchange import Request
from llm_proxy.framing.eventstream import Frame, parse_frame
from llm_proxy.turns import Turn

DIALECT: Final = Bedrock()

TypedPayload = tuple[str, Any]
"""The type of an event or exception, and its decoded JSON payload."""


def converse_request(model: str = "us.amazon.nova-2-lite-v1:0", *, stream: bool = True) -> Request:
    """A request to Converse or ConverseStream."""
    return DIALECT.sample_request(model, stream=stream)


def invoke_request(model: str, *, stream: bool = True, **body: Any) -> Request:
    """A request to InvokeModel, with or without a response stream, in the model's own format."""
    operation = "invoke-with-response-stream" if stream else "invoke"
    return json_request(f"/model/{model}/{operation}", **body)


def encode_response(request: Request, *turns: Turn) -> DialectResponse:
    """The response that encodes these turns."""
    return DIALECT.encode_response(request, turns, ENCODE_CONTEXT)


def decode_document(response: DialectResponse) -> Any:
    """The JSON document of a response that is not streamed."""
    assert response.codec_name == "whole"
    return orjson.loads(b"".join(response.framed_messages))


def parse_frames(response: DialectResponse) -> list[Frame]:
    """The frames of a stream; each message must be one."""
    assert response.codec_name == "eventstream"
    parsed = [parse_frame(message) for message in response.framed_messages]
    assert None not in parsed
    return [frame for frame in parsed if frame is not None]


def typed_payloads(response: DialectResponse) -> list[TypedPayload]:
    """The events of a stream, and the exception that ends it."""
    return [
        (
            frame.header(":event-type") or frame.header(":exception-type"),
            orjson.loads(frame.payload),
        )
        for frame in parse_frames(response)
    ]


def native_events(response: DialectResponse) -> list[Any]:
    """The events of an InvokeModel stream in the model's own format, out of its `chunk` events."""
    payloads = typed_payloads(response)
    assert {name for name, _ in payloads} == {"chunk"}
    return [orjson.loads(base64.b64decode(payload["bytes"])) for _, payload in payloads]
