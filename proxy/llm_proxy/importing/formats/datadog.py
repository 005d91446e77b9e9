"""Recordings of Datadog's test agent (`ddapm-test-agent`), one exchange a file, in JSON.

    {"request": {"method", "url", "headers": {name: value}, "body": text},
     "response": {"status": {"code", "message"}, "headers", "body": text}}

A body of bytes is in base64, behind `base64:`.
"""

from __future__ import annotations

from typing import Any, Final

from llm_proxy.importing import fields
from llm_proxy.importing.source import NO_DATE, NO_TIMES, Format, Opened, SourceExchange

_REQUEST: Final = frozenset(("method", "url", "headers", "body"))
_RESPONSE: Final = frozenset(("status", "headers", "body"))
_BASE64: Final = "base64:"


def _claims(opened: Opened) -> bool:
    match opened.document:
        case {"request": {"url": str()}, "response": {"status": {"code": _}}}:
            return opened.kind == "json"
        case _:
            return False


def _items(opened: Opened) -> list[Any]:
    return [opened.document]


def _exchange(item: Any) -> SourceExchange:
    asked, answered = item["request"], item["response"]
    fields.only(asked, _REQUEST, "request")
    fields.only(answered, _RESPONSE, "response")
    request, host = fields.request(
        asked.get("method"), asked["url"], fields.headers(asked.get("headers")), _body(asked)
    )
    headers = fields.headers(answered.get("headers"))
    recorded = fields.date_of(headers)
    return SourceExchange(
        request=request,
        host=host,
        status=fields.status(answered["status"]["code"]),
        reason=str(answered["status"].get("message") or ""),
        headers=headers,
        body=_body(answered),
        recorded=recorded,
        losses=(NO_TIMES, *(() if recorded else (NO_DATE,))),
    )


def _body(message: dict[str, Any]) -> bytes:
    body = message.get("body")
    if isinstance(body, str) and body.startswith(_BASE64):
        return fields.unbase64(body.removeprefix(_BASE64))
    return fields.content(body)


DATADOG: Final = Format("datadog", "Datadog's test agent", _claims, _items, _exchange)
