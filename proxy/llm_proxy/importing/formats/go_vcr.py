"""Cassettes of go-vcr, versions 1 to 4, in YAML.

    version: 2
    interactions:
    - request: {method, url, host, headers: {Name: [value]}, body: text}
      response: {code: 200, status: 200 OK, headers, body: text, uncompressed, duration: 342.05ms}

The duration is the time to the response head.  Similar tools store bytes as base64, marked by
`bodyEncoding: base64` beside the body.
"""

from __future__ import annotations

import re
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from llm_proxy.importing import fields
from llm_proxy.importing.source import (
    ForeignFormat,
    NotImportable,
    ParsedFile,
    SourceExchange,
    SourceMessage,
    first_object,
    list_field,
)

_REQUEST_FIELDS: Final = frozenset(
    ("method", "url", "headers", "host", "body", "bodyEncoding", "form", "proto", "proto_major",
     "proto_minor", "content_length", "transfer_encoding", "trailer", "remote_addr", "request_uri")
)  # fmt: skip
_RESPONSE_FIELDS: Final = frozenset(
    ("status", "code", "headers", "body", "bodyEncoding", "uncompressed", "duration", "proto",
     "proto_major", "proto_minor", "content_length", "transfer_encoding", "trailer")
)  # fmt: skip

_GO_DURATION: Final = re.compile(r"(?:[0-9]{1,12}(?:\.[0-9]{1,12})?(?:h|m|s|ms|us|µs|ns))+")
_DURATION_TERM: Final = re.compile(r"([0-9.]+)(h|ms|m|s|us|µs|ns)")
_MS_PER_UNIT: Final = MappingProxyType(
    {"h": 3.6e6, "m": 6e4, "s": 1e3, "ms": 1.0, "us": 1e-3, "µs": 1e-3, "ns": 1e-6}
)


def _matches_format(parsed_file: ParsedFile) -> bool:
    request = first_object(_list_items(parsed_file)).get("request")
    return (
        parsed_file.file_type in ("yaml", "json") and isinstance(request, dict) and "url" in request
    )


def _list_items(parsed_file: ParsedFile) -> list[Any]:
    return list_field(parsed_file.document, "interactions")


def _parse_exchange(item: Any) -> SourceExchange:
    interaction = fields.require_object(item, "the exchange")
    request = fields.require_message(interaction, "request", _REQUEST_FIELDS)
    response = fields.require_message(interaction, "response", _RESPONSE_FIELDS)
    request_message, response_message = _parse_message(request), _parse_message(response)
    if not request_message.body and fields.nonnegative_number(request.get("content_length")):
        raise NotImportable("the request body was not recorded")
    if response.get("uncompressed") is True:
        headers = fields.without_coding_headers(response_message.headers)
        response_message = replace(response_message, headers=headers)
    exchange = fields.build_exchange(
        request.get("method"),
        request.get("url"),
        request_message,
        response.get("code") or response.get("status"),
        str(response.get("status") or "").partition(" ")[2],
        response_message,
        head_at_ms=parse_go_duration_ms(response.get("duration")),
    )
    host = str(request.get("host") or "").partition(":")[0].lower()
    return replace(exchange, host=exchange.host or host)


def _parse_message(message: dict[str, Any]) -> SourceMessage:
    body = fields.decode_stored_body(message.get("body"), message.get("bodyEncoding"))
    return SourceMessage(fields.parse_headers(message.get("headers")), body)


def parse_go_duration_ms(value: Any) -> float | None:
    """A Go duration (`1.5s`, `1m2.5s`, or a number of ns) in ms; None for zero or none."""
    if isinstance(value, int | float):
        duration_ns = fields.nonnegative_number(value)
        return duration_ns / 1e6 if duration_ns else None
    if not isinstance(value, str) or _GO_DURATION.fullmatch(value) is None:
        return None
    return (
        sum(float(number) * _MS_PER_UNIT[unit] for number, unit in _DURATION_TERM.findall(value))
        or None
    )


GO_VCR: Final = ForeignFormat("go-vcr", "go-vcr", _matches_format, _list_items, _parse_exchange)
