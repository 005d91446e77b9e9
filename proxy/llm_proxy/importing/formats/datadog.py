"""Recordings of Datadog's test agent (`ddapm-test-agent`): JSON, one exchange per file.

    {"request": {"method", "url", "headers": {name: value}, "body": text},
     "response": {"status": {"code", "message"}, "headers", "body": text}}

A binary body is base64 with the prefix `base64:`.
"""

from __future__ import annotations

from typing import Any, Final

from llm_proxy.importing import fields
from llm_proxy.importing.source import ForeignFormat, ParsedFile, SourceExchange, SourceMessage

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
    request = fields.require_message(item, "request", _REQUEST_FIELDS)
    response = fields.require_message(item, "response", _RESPONSE_FIELDS)
    status = response["status"]
    return fields.build_exchange(
        request.get("method"),
        request["url"],
        _parse_message(request),
        status["code"],
        status.get("message"),
        _parse_message(response),
    )


def _parse_message(message: dict[str, Any]) -> SourceMessage:
    body = message.get("body")
    if isinstance(body, str) and body.startswith(_BASE64_PREFIX):
        data = fields.decode_base64_body(body.removeprefix(_BASE64_PREFIX))
    else:
        data = fields.body_to_bytes(body)
    return SourceMessage(fields.parse_headers(message.get("headers")), data)


DATADOG: Final = ForeignFormat(
    "datadog", "Datadog test agent", _matches_format, _list_items, _parse_exchange
)
