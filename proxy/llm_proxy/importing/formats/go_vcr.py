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
    Format,
    Opened,
    SourceExchange,
    Unfit,
    first,
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


def _claims(opened: Opened) -> bool:
    request = first(_items(opened)).get("request")
    return opened.kind in ("yaml", "json") and isinstance(request, dict) and "url" in request


def _items(opened: Opened) -> list[Any]:
    document = opened.document
    items = document.get("interactions") if isinstance(document, dict) else None
    return items if isinstance(items, list) else []


def _exchange(item: Any) -> SourceExchange:
    it = fields.fields(item, "fields")
    asked = fields.fields(it.get("request"), "request")
    answered = fields.fields(it.get("response"), "response")
    fields.only(asked, _REQUEST, "request")
    fields.only(answered, _RESPONSE, "response")
    sent = fields.text_of(asked.get("body"), asked.get("bodyEncoding"))
    if not sent and fields.number(asked.get("content_length")):
        raise Unfit("the body of its request was not kept")
    headers = fields.headers(answered.get("headers"))
    if answered.get("uncompressed") is True:
        headers = tuple(pair for pair in headers if pair[0].lower() not in _CODING)
    request, host = fields.request(asked.get("method"), asked.get("url"), _asked(asked), sent)
    head_at = span(answered.get("duration"))
    recorded = fields.date_of(headers)
    times = NO_TIMES if head_at is None else NO_READS
    return SourceExchange(
        request=request,
        host=host or str(asked.get("host") or "").partition(":")[0].lower(),
        status=fields.status(answered.get("code") or answered.get("status")),
        reason=str(answered.get("status") or "").partition(" ")[2],
        headers=headers,
        body=fields.text_of(answered.get("body"), answered.get("bodyEncoding")),
        head_at=head_at,
        recorded=recorded,
        losses=(times, *(() if recorded else (NO_DATE,))),
    )


def _asked(request: dict[str, Any]) -> Headers:
    """The headers of a request.  Raises `Unfit` for one that is no request of a client's."""
    if not request.get("method"):
        raise Unfit("its request has no method")
    return fields.headers(request.get("headers"))


def span(value: Any) -> float | None:
    """The ms of a duration as Go writes it: `1.5s`, `1m2.5s`, or ns; None where there is none."""
    if isinstance(value, int | float):
        found = fields.number(value)
        return found / 1e6 if found else None
    if not isinstance(value, str) or _SPAN.fullmatch(value) is None:
        return None
    return sum(float(number) * _MS[unit] for number, unit in _TERM.findall(value)) or None


GO_VCR: Final = Format("go-vcr", "go-vcr", _claims, _items, _exchange)
