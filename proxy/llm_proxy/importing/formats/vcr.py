"""Cassettes of VCR.py, in YAML or JSON; also those of pytest-recording and pydantic-ai.

    interactions:
    - request: {method, uri, headers: {name: [value]}, body: text}
      response: {status: {code, message}, headers, body: {string: text}}
    version: 1

A body may be bytes, compressed or not, or `base64_string`; pydantic-ai stores JSON as
`parsed_body`, VCR.py 4 and 5 the text of an httpx response as `content`, beside a `status_code`.
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
    ParsedFile,
    SourceExchange,
    UnsupportedYamlObject,
    first_object,
)

_REQUEST_FIELDS: Final = frozenset(
    ("method", "uri", "headers", "body", "parsed_body", "bodyEncoding")
)
_RESPONSE_FIELDS: Final = frozenset(
    ("status", "status_code", "headers", "body", "parsed_body", "bodyEncoding", "content",
     "http_version", "protocol", "url", "adapter_metadata")
)  # fmt: skip


def _matches_format(parsed_file: ParsedFile) -> bool:
    items = _list_items(parsed_file)
    if (
        parsed_file.file_type == "yaml"
        and items
        and all(isinstance(item, UnsupportedYamlObject) for item in items)
    ):
        return True  # only VCR.py writes objects
    request = first_object(items).get("request")
    return (
        parsed_file.file_type in ("yaml", "json") and isinstance(request, dict) and "uri" in request
    )


def _list_items(parsed_file: ParsedFile) -> list[Any]:
    document = parsed_file.document
    if isinstance(document, list):  # the first versions of VCR.py
        return document
    items = document.get("interactions") if isinstance(document, dict) else None
    return items if isinstance(items, list) else []


def parse_vcr_exchange(
    item: Any, parse_request_body: Callable[[dict[str, Any], Headers], bodies.ImportedBody]
) -> SourceExchange:
    """The exchange of an item; `parse_request_body` depends on how the tool stores bodies.

    Raises `NotImportable`.
    """
    interaction = fields.require_object(item, "fields")
    request_fields = fields.require_object(interaction.get("request"), "request")
    response_fields = fields.require_object(interaction.get("response"), "response")
    fields.reject_unknown_fields(request_fields, _REQUEST_FIELDS, "request")
    fields.reject_unknown_fields(response_fields, _RESPONSE_FIELDS, "response")
    request_body = parse_request_body(
        request_fields, fields.parse_headers(request_fields.get("headers"))
    )
    response_body = bodies.parse_body(
        response_fields, fields.parse_headers(response_fields.get("headers"))
    )
    request, host = fields.build_request_and_host(
        request_fields.get("method"),
        request_fields.get("uri"),
        request_body.headers,
        request_body.raw_body,
    )
    raw_status = response_fields.get("status")
    status = (
        raw_status
        if isinstance(raw_status, dict)
        else {"code": raw_status or response_fields.get("status_code")}
    )
    raw_recorded_at = interaction.get("recorded_at") or interaction.get("recordedAt")
    recorded = fields.normalize_timestamp(raw_recorded_at) if raw_recorded_at else ""
    recorded = recorded or fields.response_date(response_body.headers)
    return SourceExchange(
        request=request,
        host=host,
        status=fields.parse_status(status.get("code")),
        reason_phrase=str(status.get("message") or ""),
        response_headers=response_body.headers,
        response_body=response_body.raw_body,
        recorded_at=recorded,
        losses=(
            NO_TIMES,
            *request_body.losses,
            *response_body.losses,
            *(() if recorded else (NO_DATE,)),
        ),
    )


VCR: Final = ForeignFormat(
    "vcr",
    "VCR.py",
    _matches_format,
    _list_items,
    partial(parse_vcr_exchange, parse_request_body=bodies.parse_vcr_request_body),
)
