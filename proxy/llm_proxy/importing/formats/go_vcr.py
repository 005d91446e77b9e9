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
from types import MappingProxyType
from typing import Any, Final

from llm_proxy.exchange import Headers
from llm_proxy.importing import fields
from llm_proxy.importing.source import (
    NO_DATE,
    NO_READ_TIMES,
    NO_TIMES,
    ForeignFormat,
    NotImportable,
    ParsedFile,
    SourceExchange,
    first_object,
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
_CODING_HEADERS: Final = ("content-encoding", "content-length")


def _matches_format(parsed_file: ParsedFile) -> bool:
    request = first_object(_list_items(parsed_file)).get("request")
    return (
        parsed_file.file_type in ("yaml", "json") and isinstance(request, dict) and "url" in request
    )


def _list_items(parsed_file: ParsedFile) -> list[Any]:
    document = parsed_file.document
    items = document.get("interactions") if isinstance(document, dict) else None
    return items if isinstance(items, list) else []


def _parse_exchange(item: Any) -> SourceExchange:
    interaction = fields.require_object(item, "fields")
    request_fields = fields.require_object(interaction.get("request"), "request")
    response_fields = fields.require_object(interaction.get("response"), "response")
    fields.reject_unknown_fields(request_fields, _REQUEST_FIELDS, "request")
    fields.reject_unknown_fields(response_fields, _RESPONSE_FIELDS, "response")
    request_body = fields.decode_stored_body(
        request_fields.get("body"), request_fields.get("bodyEncoding")
    )
    if not request_body and fields.nonnegative_number(request_fields.get("content_length")):
        raise NotImportable("the body of its request was not kept")
    headers = fields.parse_headers(response_fields.get("headers"))
    if response_fields.get("uncompressed") is True:
        headers = tuple(pair for pair in headers if pair[0].lower() not in _CODING_HEADERS)
    request, host = fields.build_request_and_host(
        request_fields.get("method"),
        request_fields.get("url"),
        _request_headers(request_fields),
        request_body,
    )
    head_at_ms = parse_go_duration_ms(response_fields.get("duration"))
    recorded = fields.response_date(headers)
    time_loss = NO_TIMES if head_at_ms is None else NO_READ_TIMES
    return SourceExchange(
        request=request,
        host=host or str(request_fields.get("host") or "").partition(":")[0].lower(),
        status=fields.parse_status(response_fields.get("code") or response_fields.get("status")),
        reason_phrase=str(response_fields.get("status") or "").partition(" ")[2],
        response_headers=headers,
        response_body=fields.decode_stored_body(
            response_fields.get("body"), response_fields.get("bodyEncoding")
        ),
        head_at_ms=head_at_ms,
        recorded_at=recorded,
        losses=(time_loss, *(() if recorded else (NO_DATE,))),
    )


def _request_headers(request_fields: dict[str, Any]) -> Headers:
    """The headers of a request.

    Raises `NotImportable` without a method: it is no request of a client.
    """
    if not request_fields.get("method"):
        raise NotImportable("its request has no method")
    return fields.parse_headers(request_fields.get("headers"))


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
