"""Bedrock's requests, and its responses as bytes and as the dialect encodes them."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any, Final

import orjson

from dialect_manners import ENCODE_CONTEXT, json_request
from llm_proxy import framing
from llm_proxy.dialects.base import ConvertedResponseTurns, DialectResponse
from llm_proxy.dialects.bedrock.dialect import Bedrock
from llm_proxy.exchange import Headers, Request, ResponseHead
from llm_proxy.framing.eventstream import encode_frame
from llm_proxy.turns import Json, Turn

DIALECT: Final = Bedrock()
CONTEXT: Final = replace(ENCODE_CONTEXT, split_text=lambda text: filter(None, (text[:2], text[2:])))
Event = tuple[str, dict[str, Any]]
"""The type of an event, and its payload."""
METRICS_FIELD: Final = "amazon-bedrock-invocationMetrics"
METRICS: Final[dict[str, Json]] = {
    "inputTokenCount": 9, "outputTokenCount": 2, "invocationLatency": 100, "firstByteLatency": 100,
}  # fmt: skip


def event(name: str, payload: Any) -> bytes:
    """The frame of an event."""
    return _frame(":event-type", name, "event", payload)


def exception_frame(name: str, **payload: object) -> bytes:
    """The frame of an exception."""
    return _frame(":exception-type", name, "exception", payload)


def _frame(type_header: str, name: str, kind: str, payload: Any) -> bytes:
    headers = [(type_header, name), (":content-type", "application/json"), (":message-type", kind)]
    return encode_frame(headers, orjson.dumps(payload))


def converse_stream(*events: Event) -> bytes:
    """A body of ConverseStream."""
    return b"".join(event(name, payload) for name, payload in events)


def invoke_stream(*events: Any, **padding: str) -> bytes:
    """A body of InvokeModelWithResponseStream, with this padding beside each event."""
    return b"".join(
        event("chunk", {"bytes": base64.b64encode(orjson.dumps(item)).decode(), **padding})
        for item in events
    )


def delta(index: int, **fields: object) -> Event:
    """A piece of a content block."""
    return "contentBlockDelta", {"contentBlockIndex": index, "delta": fields}


def start(index: int, **fields: object) -> Event:
    """The start of a content block."""
    return "contentBlockStart", {"contentBlockIndex": index, "start": fields}


def stop(index: int) -> Event:
    """The end of a content block."""
    return "contentBlockStop", {"contentBlockIndex": index}


BEGIN: Final[Event] = ("messageStart", {"role": "assistant"})


def stream_response(body: bytes) -> DialectResponse:
    """A streamed response."""
    head = ResponseHead(200, "", (), "chunked")
    return DialectResponse(head, "eventstream", framing.split_messages("eventstream", body))


def whole_response(document: object, status: int = 200, headers: Headers = ()) -> DialectResponse:
    """A response of one document, or of bytes that are none."""
    body = document if isinstance(document, bytes) else orjson.dumps(document)
    head = ResponseHead(status, "", headers, "chunked")
    return DialectResponse(head, "whole", framing.split_messages("whole", body))


STREAM: Final = DIALECT.sample_request("us.amazon.nova-2-lite-v1:0", stream=True)
WHOLE: Final = DIALECT.sample_request("us.amazon.nova-2-lite-v1:0", stream=False)


def invoke_request(model: str, *, stream: bool = True, **body: Any) -> Request:
    """A request to InvokeModel, with or without a response stream, in the model's own format."""
    operation = "invoke-with-response-stream" if stream else "invoke"
    return json_request(f"/model/{model.replace('/', '%2F')}/{operation}", **body)


def encode_response(request: Request, *turns: Turn) -> DialectResponse:
    """The response that encodes these turns; each of its messages must be whole."""
    response = DIALECT.encode_response(request, turns, CONTEXT)
    messages = framing.split_messages(response.codec_name, response.body)
    assert list(response.framed_messages) == messages
    return response


def convert(request: Request, *turns: Turn) -> ConvertedResponseTurns:
    """The turns as a response represents them."""
    return DIALECT.representable_turns(request, turns, CONTEXT)


def decode_document(response: DialectResponse) -> Any:
    """The JSON document of a response that is not streamed."""
    assert response.codec_name == "whole"
    return orjson.loads(response.body)


def decode_turn(response: DialectResponse) -> Turn:
    """The one turn of a response."""
    (turn,) = DIALECT.decode_response(response)
    return turn
