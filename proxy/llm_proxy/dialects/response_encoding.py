"""Builds responses: one-line JSON, streams and documents."""

from __future__ import annotations

import json
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, Final

import orjson

from llm_proxy.dialects.base import DialectResponse
from llm_proxy.exchange import Headers, Request, ResponseHead

Document = dict[str, Any]
"""A JSON object in the making: what holds it is free of the type of its values."""

_LINE_ENDS: Final = ((b"\xc2\x85", b"\\u0085"), (b"\xe2\x80\xa8", b"\\u2028"),
                     (b"\xe2\x80\xa9", b"\\u2029"))  # fmt: skip
"""What Unicode calls line ends, and some clients take for one (`str.splitlines`)."""

_PHRASES: Final = {status.value: status.phrase for status in HTTPStatus} | {529: "Overloaded"}


def json_line(value: Any) -> bytes:
    """A JSON value in one line, whichever way a client tells lines."""
    try:
        data = orjson.dumps(value)
    except orjson.JSONEncodeError:  # halves of surrogate pairs, which JSON can spell
        data = json.dumps(value, separators=(",", ":")).encode()
    for raw, escaped in _LINE_ENDS:
        data = data.replace(raw, escaped)
    return data


def json_post_request(path: str, body: Document, headers: Headers = ()) -> Request:
    """A request with this JSON document."""
    fields = (("Content-Type", "application/json"), *headers)
    return Request("POST", path, "", fields, json_line(body))


def stream_response(
    codec: str, content_type: str, messages: Iterable[bytes], headers: Headers = ()
) -> DialectResponse:
    """A stream of messages that are cut by `codec`."""
    head = ResponseHead(200, "OK", (("Content-Type", content_type), *headers), "chunked")
    return DialectResponse(head, codec, tuple(messages))


def json_response(
    value: Document | bytes, headers: Headers = (), status: int = 200
) -> DialectResponse:
    """An answer of one JSON document; bytes are taken for one."""
    body = value if isinstance(value, bytes) else json_line(value)
    fields = (("Content-Type", "application/json"), *headers)
    reason = _PHRASES.get(status, "")
    return DialectResponse(
        ResponseHead(status, reason, fields, "length", len(body)), "whole", (body,)
    )
