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
    Format,
    NotMade,
    Opened,
    SourceExchange,
    first,
)

_REQUEST: Final = frozenset(("method", "uri", "headers", "body", "parsed_body", "bodyEncoding"))
_RESPONSE: Final = frozenset(
    ("status", "status_code", "headers", "body", "parsed_body", "bodyEncoding", "content",
     "http_version", "protocol", "url", "adapter_metadata")
)  # fmt: skip


def _claims(opened: Opened) -> bool:
    items = _items(opened)
    if opened.kind == "yaml" and items and all(isinstance(it, NotMade) for it in items):
        return True  # other tools write no objects
    request = first(items).get("request")
    return opened.kind in ("yaml", "json") and isinstance(request, dict) and "uri" in request


def _items(opened: Opened) -> list[Any]:
    document = opened.document
    if isinstance(document, list):  # as the first versions wrote it
        return document
    items = document.get("interactions") if isinstance(document, dict) else None
    return items if isinstance(items, list) else []


def exchange(
    item: Any, sent_body: Callable[[dict[str, Any], Headers], bodies.Body]
) -> SourceExchange:
    """The exchange of an item, by how its tool keeps the body of a request.  Raises `Unfit`."""
    it = fields.fields(item, "fields")
    asked = fields.fields(it.get("request"), "request")
    answered = fields.fields(it.get("response"), "response")
    fields.only(asked, _REQUEST, "request")
    fields.only(answered, _RESPONSE, "response")
    sent = sent_body(asked, fields.headers(asked.get("headers")))
    came = bodies.of(answered, fields.headers(answered.get("headers")))
    request, host = fields.request(asked.get("method"), asked.get("uri"), sent.headers, sent.data)
    said = answered.get("status")
    status = said if isinstance(said, dict) else {"code": said or answered.get("status_code")}
    moment = it.get("recorded_at") or it.get("recordedAt")
    recorded = fields.moment(moment) if moment else ""
    recorded = recorded or fields.date_of(came.headers)
    return SourceExchange(
        request=request,
        host=host,
        status=fields.status(status.get("code")),
        reason=str(status.get("message") or ""),
        headers=came.headers,
        body=came.data,
        recorded=recorded,
        losses=(NO_TIMES, *sent.losses, *came.losses, *(() if recorded else (NO_DATE,))),
    )


VCR: Final = Format("vcr", "VCR.py", _claims, _items, partial(exchange, sent_body=bodies.sent))
