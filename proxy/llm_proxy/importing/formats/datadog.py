"""Recordings of Datadog's test agent (`ddapm-test-agent`), one exchange a file, in JSON.

    {"request": {"method", "url", "headers": {name: value}, "body": text},
     "response": {"status": {"code", "message"}, "headers", "body": text}}

A body of bytes is in base64, behind `base64:`.
"""

from __future__ import annotations

from typing import Any, Final

from llm_proxy.importing import fields
from llm_proxy.importing.source import NO_DATE, NO_TIMES, ForeignFormat, OpenedFile, SourceExchange

_REQUEST: Final = frozenset(("method", "url", "headers", "body"))
_RESPONSE: Final = frozenset(("status", "headers", "body"))
_BASE64: Final = "base64:"


def _matches_format(opened: OpenedFile) -> bool:
    match opened.document:
        case {"request": {"url": str()}, "response": {"status": {"code": _}}}:
            return opened.kind == "json"
        case _:
            return False


def _list_items(opened: OpenedFile) -> list[Any]:
    return [opened.document]


def _parse_exchange(item: Any) -> SourceExchange:
    value, answered = item["request"], item["response"]
    fields.check_known_fields(value, _REQUEST, "request")
    fields.check_known_fields(answered, _RESPONSE, "response")
    request, host = fields.parse_request(
        value.get("method"),
        value["url"],
        fields.parse_headers(value.get("headers")),
        _parse_body(value),
    )
    headers = fields.parse_headers(answered.get("headers"))
    recorded = fields.response_date(headers)
    return SourceExchange(
        request=request,
        host=host,
        status=fields.parse_status(answered["status"]["code"]),
        reason=str(answered["status"].get("message") or ""),
        headers=headers,
        body=_parse_body(answered),
        recorded=recorded,
        losses=(NO_TIMES, *(() if recorded else (NO_DATE,))),
    )


def _parse_body(message: dict[str, Any]) -> bytes:
    body = message.get("body")
    if isinstance(body, str) and body.startswith(_BASE64):
        return fields.parse_base64(body.removeprefix(_BASE64))
    return fields.parse_content(body)


DATADOG: Final = ForeignFormat(
    "datadog", "Datadog's test agent", _matches_format, _list_items, _parse_exchange
)
