"""Cassettes of VCR.py, in YAML or JSON; also those of pytest-recording and pydantic-ai.

    interactions:
    - request: {method, uri, headers: {name: [value]}, body: text}
      response: {status: {code, message}, headers, body: {string: text}}
    version: 1

A body may be bytes, coded or decoded, or `base64_string`; pydantic-ai keeps JSON as `parsed_body`.
"""

from __future__ import annotations

from typing import Any, Final

from llm_proxy.importing import fields
from llm_proxy.importing.formats import bodies
from llm_proxy.importing.source import NO_DATE, NO_TIMES, Format, Opened, SourceExchange


def _claims(opened: Opened) -> bool:
    return opened.kind in ("yaml", "json") and any(
        isinstance(it, dict) and isinstance(it.get("request"), dict) and "uri" in it["request"]
        for it in _items(opened)[:1]
    )


def _items(opened: Opened) -> list[Any]:
    document = opened.document
    if isinstance(document, list):  # as the first versions wrote it
        return document
    items = document.get("interactions") if isinstance(document, dict) else None
    return items if isinstance(items, list) else []


def _exchange(item: Any) -> SourceExchange:
    it = fields.fields(item, "fields")
    asked = fields.fields(it.get("request"), "request")
    answered = fields.fields(it.get("response"), "response")
    sent = bodies.of(asked, fields.headers(asked.get("headers")))
    came = bodies.of(answered, fields.headers(answered.get("headers")))
    request, host = fields.request(asked.get("method"), asked.get("uri"), sent.headers, sent.data)
    said = answered.get("status")
    status = said if isinstance(said, dict) else {"code": said or answered.get("status_code")}
    recorded = fields.moment(it["recorded_at"]) if it.get("recorded_at") else ""
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


VCR: Final = Format("vcr", "VCR.py", _claims, _items, _exchange)
