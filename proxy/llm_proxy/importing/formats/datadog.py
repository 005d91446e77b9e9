"""Recordings of Datadog's test agent (`ddapm-test-agent`): JSON, one exchange per file.

    {"request": {"method", "url", "headers": {name: value}, "body": text},
     "response": {"status": {"code", "message"}, "headers", "body": text}}

A binary body is base64 with the prefix `base64:`.
"""

from __future__ import annotations

from typing import Any, Final

from llm_proxy.importing import fields
from llm_proxy.importing.source import NO_DATE, NO_TIMES, ForeignFormat, ParsedFile, SourceExchange

_REQUEST_FIELDS: Final = frozenset(("method", "url", "headers", "body"))
_RESPONSE_FIELDS: Final = frozenset(("status", "headers", "body"))
_BASE64_PREFIX: Final = "base64:"


def _matches_format(parsed_file: ParsedFile) -> bool:
    match parsed_file.document:
        case {"request": {"url": str()}, "response": {"status": {"code": _}}}:
            return parsed_file.file_type == "json"
        case _:
            return False


def _list_items(parsed_file: ParsedFile) -> list[Any]:
    return [parsed_file.document]


def _parse_exchange(item: Any) -> SourceExchange:
    request_fields, response_fields = item["request"], item["response"]
    fields.reject_unknown_fields(request_fields, _REQUEST_FIELDS, "request")
    fields.reject_unknown_fields(response_fields, _RESPONSE_FIELDS, "response")
    request, host = fields.build_request_and_host(
        request_fields.get("method"),
        request_fields["url"],
        fields.parse_headers(request_fields.get("headers")),
        _parse_body(request_fields),
    )
    headers = fields.parse_headers(response_fields.get("headers"))
    recorded = fields.response_date(headers)
    return SourceExchange(
        request=request,
        host=host,
        status=fields.parse_status(response_fields["status"]["code"]),
        reason_phrase=str(response_fields["status"].get("message") or ""),
        response_headers=headers,
        response_body=_parse_body(response_fields),
        recorded_at=recorded,
        losses=(NO_TIMES, *(() if recorded else (NO_DATE,))),
    )


def _parse_body(message: dict[str, Any]) -> bytes:
    body = message.get("body")
    if isinstance(body, str) and body.startswith(_BASE64_PREFIX):
        return fields.decode_base64_body(body.removeprefix(_BASE64_PREFIX))
    return fields.body_to_bytes(body)


DATADOG: Final = ForeignFormat(
    "datadog", "Datadog's test agent", _matches_format, _list_items, _parse_exchange
)
