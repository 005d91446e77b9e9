"""Cassettes of go-vcr, versions 1 to 4, in YAML.

    version: 2
    interactions:
    - request: {method, url, host, headers: {Name: [value]}, body: text}
      response: {code: 200, status: 200 OK, headers, body: text, uncompressed, duration: 342.05ms}

The duration is the time to the head.  Tools that write alike keep bytes in base64, and say so with
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
    NO_READS,
    NO_TIMES,
    ForeignFormat,
    NotImportable,
    OpenedFile,
    SourceExchange,
    first_readable,
)

_REQUEST: Final = frozenset(
    ("method", "url", "headers", "host", "body", "bodyEncoding", "form", "proto", "proto_major",
     "proto_minor", "content_length", "transfer_encoding", "trailer", "remote_addr", "request_uri")
)  # fmt: skip
_RESPONSE: Final = frozenset(
    ("status", "code", "headers", "body", "bodyEncoding", "uncompressed", "duration", "proto",
     "proto_major", "proto_minor", "content_length", "transfer_encoding", "trailer")
)  # fmt: skip

_SPAN: Final = re.compile(r"(?:[0-9]{1,12}(?:\.[0-9]{1,12})?(?:h|m|s|ms|us|µs|ns))+")
_TERM: Final = re.compile(r"([0-9.]+)(h|ms|m|s|us|µs|ns)")
_MS: Final = MappingProxyType(
    {"h": 3.6e6, "m": 6e4, "s": 1e3, "ms": 1.0, "us": 1e-3, "µs": 1e-3, "ns": 1e-6}
)
_CODING: Final = ("content-encoding", "content-length")


def _matches_format(opened: OpenedFile) -> bool:
    request = first_readable(_list_items(opened)).get("request")
    return opened.kind in ("yaml", "json") and isinstance(request, dict) and "url" in request


def _list_items(opened: OpenedFile) -> list[Any]:
    document = opened.document
    items = document.get("interactions") if isinstance(document, dict) else None
    return items if isinstance(items, list) else []


def _parse_exchange(item: Any) -> SourceExchange:
    document = fields.parse_fields(item, "fields")
    details = fields.parse_fields(document.get("request"), "request")
    answered = fields.parse_fields(document.get("response"), "response")
    fields.check_known_fields(details, _REQUEST, "request")
    fields.check_known_fields(answered, _RESPONSE, "response")
    sent = fields.parse_text_body(details.get("body"), details.get("bodyEncoding"))
    if not sent and fields.parse_number(details.get("content_length")):
        raise NotImportable("the body of its request was not kept")
    headers = fields.parse_headers(answered.get("headers"))
    if answered.get("uncompressed") is True:
        headers = tuple(pair for pair in headers if pair[0].lower() not in _CODING)
    request, host = fields.parse_request(
        details.get("method"), details.get("url"), _request_headers(details), sent
    )
    head_at = parse_duration_ms(answered.get("duration"))
    recorded = fields.response_date(headers)
    times = NO_TIMES if head_at is None else NO_READS
    return SourceExchange(
        request=request,
        host=host or str(details.get("host") or "").partition(":")[0].lower(),
        status=fields.parse_status(answered.get("code") or answered.get("status")),
        reason=str(answered.get("status") or "").partition(" ")[2],
        headers=headers,
        body=fields.parse_text_body(answered.get("body"), answered.get("bodyEncoding")),
        head_at=head_at,
        recorded=recorded,
        losses=(times, *(() if recorded else (NO_DATE,))),
    )


def _request_headers(request: dict[str, Any]) -> Headers:
    """The headers of a request.

    Raises `NotImportable` for one that is no request of a client's.
    """
    if not request.get("method"):
        raise NotImportable("its request has no method")
    return fields.parse_headers(request.get("headers"))


def parse_duration_ms(value: Any) -> float | None:
    """The ms of a duration as Go writes it: `1.5s`, `1m2.5s`, or ns; None where there is none."""
    if isinstance(value, int | float):
        found = fields.parse_number(value)
        return found / 1e6 if found else None
    if not isinstance(value, str) or _SPAN.fullmatch(value) is None:
        return None
    return sum(float(number) * _MS[unit] for number, unit in _TERM.findall(value)) or None


GO_VCR: Final = ForeignFormat("go-vcr", "go-vcr", _matches_format, _list_items, _parse_exchange)
