"""Builds responses: one-line JSON, streams, documents and retry headers."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from http import HTTPStatus
from math import ceil
from typing import Any, Final

import orjson

from llm_proxy.dialects.base import DialectResponse
from llm_proxy.exchange import Headers, Request, ResponseHead

Document = dict[str, Any]
"""A JSON object under construction; values are `Any`, so that `orjson.Fragment` fits, too."""

_UNICODE_LINE_ENDS: Final = ((b"\xc2\x85", b"\\u0085"), (b"\xe2\x80\xa8", b"\\u2028"),
                     (b"\xe2\x80\xa9", b"\\u2029"))  # fmt: skip
"""Unicode line ends, at which some clients split (`str.splitlines`), and their escapes."""

_REASON_PHRASES: Final = {status.value: status.phrase for status in HTTPStatus} | {
    529: "Overloaded"
}

_RETRY_HEADERS: Final = frozenset(("retry-after", "retry-after-ms"))


def single_line_json(value: Any) -> bytes:
    """A JSON value in one line, also for clients that split at Unicode line ends."""
    try:
        data = orjson.dumps(value)
    except orjson.JSONEncodeError:  # lone surrogates, which JSON can escape
        data = json.dumps(value, separators=(",", ":")).encode()
    if not data.isascii():
        for raw, escaped in _UNICODE_LINE_ENDS:
            data = data.replace(raw, escaped)
    return data


def json_post_request(path: str, body: Document, headers: Headers = ()) -> Request:
    """A POST request with this JSON document."""
    all_headers = (("Content-Type", "application/json"), *headers)
    return Request("POST", path, "", all_headers, single_line_json(body))


def stream_response(
    codec: str, content_type: str, messages: Iterable[bytes], headers: Headers = ()
) -> DialectResponse:
    """A stream of messages that `codec` splits."""
    head = ResponseHead(200, "OK", (("Content-Type", content_type), *headers), "chunked")
    return DialectResponse(head, codec, tuple(messages))


def json_response(
    value: Document | bytes, headers: Headers = (), status: int = 200
) -> DialectResponse:
    """A response of one JSON document; bytes are an encoded one."""
    body = value if isinstance(value, bytes) else single_line_json(value)
    all_headers = (("Content-Type", "application/json"), *headers)
    reason = _REASON_PHRASES.get(status, "")
    return DialectResponse(
        ResponseHead(status, reason, all_headers, "length", len(body)), "whole", (body,)
    )


def retry_headers(
    delay_s: float | None, seconds_name: str = "retry-after", ms_name: str = ""
) -> Headers:
    """The delay in s, rounded up, and in ms where that has a header; none without a delay."""
    if delay_s is None:
        return ()
    ms_header = ((ms_name, f"{delay_s * 1000:.0f}"),) if ms_name else ()
    return ((seconds_name, str(ceil(delay_s))), *ms_header)


def with_retry_headers(response: DialectResponse, delay_ms: float | None) -> DialectResponse:
    """The response with its retry headers replaced by this delay; without any if it is None."""
    headers = [
        header for header in response.head.headers if header[0].lower() not in _RETRY_HEADERS
    ]
    if delay_ms is not None:
        headers += [
            ("retry-after-ms", _format_number(delay_ms)),
            ("retry-after", str(ceil(delay_ms / 1000))),
        ]
    return replace(response, head=replace(response.head, headers=tuple(headers)))


def _format_number(number: float) -> str:
    return str(int(number)) if number == int(number) else str(number)
