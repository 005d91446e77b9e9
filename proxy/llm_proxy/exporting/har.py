"""Exports exchanges as HAR 1.2; `_llm_proxy` holds what HAR has no field for."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import parse_qsl

import orjson

from llm_proxy.cassette import Cassette
from llm_proxy.cassette_views import cassette_outcome
from llm_proxy.exchange import Headers, header_value
from llm_proxy.exporting.format import ExportedExchange, ExportFormat
from llm_proxy.version import __version__

_UNKNOWN_SIZE: Final = -1
"""HAR's value for an unknown size."""


def _serialize_har(exchanges: Sequence[ExportedExchange]) -> bytes:
    log = {
        "version": "1.2",
        "creator": {"name": "llm-proxy", "version": __version__},
        "entries": [_har_entry(exchange.cassette, exchange.url) for exchange in exchanges],
    }
    return orjson.dumps({"log": log}, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _har_entry(cassette: Cassette, url: str) -> dict[str, Any]:
    outcome = cassette_outcome(cassette)
    return {
        "startedDateTime": cassette.meta.recorded_at,
        "time": cassette.response_end.at_ms,
        "request": _har_request(cassette, url),
        "response": _har_response(cassette),
        "cache": {},
        "timings": {
            "send": 0,
            "wait": cassette.response_head_at_ms,
            "receive": cassette.response_end.at_ms - cassette.response_head_at_ms,
        },
        **({} if outcome.is_complete else {"comment": str(outcome)}),
        "_llm_proxy": {
            "session": cassette.meta.session,
            "provider": cassette.meta.provider,
            "dialect": cassette.meta.dialect,
            "model": cassette.meta.model,
            "key": cassette.meta.key,
            "ending": cassette.response_end.ending.value,
            "reads": [
                {"at": read.at_ms, "bytes": len(read.received_bytes)} for read in cassette.reads
            ],
        },
    }


def _har_request(cassette: Cassette, url: str) -> dict[str, Any]:
    request = cassette.request
    post_data_field: dict[str, Any] = {}
    if request.body:
        media_type = header_value(request.headers, "content-type") or "application/octet-stream"
        text, encoding = _har_text_and_encoding(request.body)
        # HAR has no encoding for request bodies; mitmproxy and others use this name.
        encoding_field = {"_encoding": encoding} if encoding else {}
        post_data_field = {"postData": {"mimeType": media_type, "text": text, **encoding_field}}
    pairs = parse_qsl(request.query, keep_blank_values=True)
    return {
        "method": request.method,
        "url": url,
        "httpVersion": "HTTP/1.1",
        "cookies": [],
        "headers": _name_value_pairs(request.headers),
        "queryString": _name_value_pairs(tuple(pairs)),
        **post_data_field,
        "headersSize": _UNKNOWN_SIZE,
        "bodySize": len(request.body),
    }


def _har_response(cassette: Cassette) -> dict[str, Any]:
    head = cassette.response_head
    text, encoding = _har_text_and_encoding(cassette.response_body)
    return {
        "status": head.status,
        "statusText": head.reason,
        "httpVersion": "HTTP/1.1",
        "cookies": [],
        "headers": _name_value_pairs(head.headers),
        "content": {
            "size": cassette.response_end.size_bytes,
            "mimeType": header_value(head.headers, "content-type") or "",
            "text": text,
            **({"encoding": encoding} if encoding else {}),
        },
        "redirectURL": header_value(head.headers, "location") or "",
        "headersSize": _UNKNOWN_SIZE,
        "bodySize": cassette.response_end.size_bytes,
    }


def _name_value_pairs(headers: Headers) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in headers]


def _har_text_and_encoding(body: bytes) -> tuple[str, str]:
    try:
        return body.decode(), ""
    except UnicodeDecodeError:
        return base64.b64encode(body).decode(), "base64"


HAR: Final = ExportFormat("har", _serialize_har, allows_several=True)
