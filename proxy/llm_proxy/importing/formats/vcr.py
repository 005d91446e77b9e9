"""Cassettes of VCR.py, in YAML or JSON; also those of pytest-recording and pydantic-ai.

    interactions:
    - request: {method, uri, headers: {name: [value]}, body: text}
      response: {status: {code, message}, headers, body: {string: text}}
    version: 1

A body may be bytes, coded or decoded, or `base64_string`; pydantic-ai keeps JSON as `parsed_body`,
VCR.py 4 and 5 the text of an answer to httpx as `content`, beside a `status_code`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from llm_proxy.exchange import Headers
from llm_proxy.importing import fields
from llm_proxy.importing.formats import bodies
from llm_proxy.importing.source import (
    NO_DATE,
    NO_TIMES,
    ForeignFormat,
    OpenedFile,
    SourceExchange,
    UnsupportedObject,
    first_readable,
)

_REQUEST: Final = frozenset(("method", "uri", "headers", "body", "parsed_body", "bodyEncoding"))
_RESPONSE: Final = frozenset(
    ("status", "status_code", "headers", "body", "parsed_body", "bodyEncoding", "content",
     "http_version", "protocol", "url", "adapter_metadata")
)  # fmt: skip


def _matches_format(opened: OpenedFile) -> bool:
    items = _list_items(opened)
    if (
        opened.kind == "yaml"
        and items
        and all(isinstance(item, UnsupportedObject) for item in items)
    ):
        return True  # other tools write no objects
    request = first_readable(items).get("request")
    return opened.kind in ("yaml", "json") and isinstance(request, dict) and "uri" in request


def _list_items(opened: OpenedFile) -> list[Any]:
    document = opened.document
    if isinstance(document, list):  # as the first versions wrote it
        return document
    items = document.get("interactions") if isinstance(document, dict) else None
    return items if isinstance(items, list) else []


def parse_vcr_exchange(
    item: Any, parse_request_body: Callable[[dict[str, Any], Headers], bodies.ImportedBody]
) -> SourceExchange:
    """The exchange of an item, by how its tool keeps the body of a request.

    Raises `NotImportable`.
    """
    document = fields.parse_fields(item, "fields")
    details = fields.parse_fields(document.get("request"), "request")
    answered = fields.parse_fields(document.get("response"), "response")
    fields.check_known_fields(details, _REQUEST, "request")
    fields.check_known_fields(answered, _RESPONSE, "response")
    sent = parse_request_body(details, fields.parse_headers(details.get("headers")))
    came = bodies.parse_body(answered, fields.parse_headers(answered.get("headers")))
    request, host = fields.parse_request(
        details.get("method"), details.get("uri"), sent.headers, sent.data
    )
    value = answered.get("status")
    status = value if isinstance(value, dict) else {"code": value or answered.get("status_code")}
    moment = document.get("recorded_at") or document.get("recordedAt")
    recorded = fields.parse_time(moment) if moment else ""
    recorded = recorded or fields.response_date(came.headers)
    return SourceExchange(
        request=request,
        host=host,
        status=fields.parse_status(status.get("code")),
        reason=str(status.get("message") or ""),
        headers=came.headers,
        body=came.data,
        recorded=recorded,
        losses=(NO_TIMES, *sent.losses, *came.losses, *(() if recorded else (NO_DATE,))),
    )


VCR: Final = ForeignFormat(
    "vcr",
    "VCR.py",
    _matches_format,
    _list_items,
    partial(parse_vcr_exchange, parse_request_body=bodies.parse_vcr_request_body),
)
