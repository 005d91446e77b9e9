"""Responses of providers as a dialect gets them: a head, and a body that is split into messages."""

from __future__ import annotations

from llm_proxy import framing
from llm_proxy.dialects import DialectResponse
from llm_proxy.exchange import ResponseHead


def head(status: int = 200, content_type: str = "text/event-stream") -> ResponseHead:
    headers = (("Content-Type", content_type),) if content_type else ()
    return ResponseHead(status, "Bad Gateway" if status == 502 else "", headers, "chunked")


def framed_response(codec: str, body: bytes, status: int = 200) -> DialectResponse:
    """A response whose body is split into messages by this codec."""
    return DialectResponse(head(status), codec, framing.split_messages(codec, body))


def stream_response(body: bytes) -> DialectResponse:
    """A response of server-sent events."""
    return framed_response("sse", body)


def whole_response(body: bytes, status: int = 200) -> DialectResponse:
    """A response of one document."""
    return DialectResponse(
        head(status, "application/json"), "whole", framing.split_messages("whole", body)
    )
