"""Cassettes of VCR.py, in YAML or JSON; also those of pytest-recording and pydantic-ai.

    interactions:
    - request: {method, uri, headers: {name: [value]}, body: text}
      response: {status: {code, message}, headers, body: {string: text}}
    version: 1

A body may be bytes, compressed or not, or `base64_string`; pydantic-ai stores JSON as
`parsed_body`, VCR.py 4 and 5 the text of an httpx response as `content`, beside a `status_code`.

Cassettes of VCR for Ruby, and of vcr for R, are similar, in YAML or JSON:

    http_interactions:
    - request: {method: post, uri, body: {encoding, string}, headers: {Name: [value]}}
      response: {status: {code, message}, headers, body: {encoding, string}}
      recorded_at: Mon, 08 Jun 2026 18:46:15 GMT
    recorded_with: VCR 6.4.0

A body may be `base64_string`, with R also `raw_gzip`; text has the charset `encoding`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from llm_proxy.exchange import Headers
from llm_proxy.importing import fields
from llm_proxy.importing.formats import bodies
from llm_proxy.importing.source import (
    ForeignFormat,
    ParsedFile,
    SourceExchange,
    SourceMessage,
    UnsupportedYamlObject,
    first_object,
    list_field,
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
    return list_field(document, "interactions")


def _parse_exchange(
    item: Any, parse_request: Callable[[dict[str, Any], Headers], SourceMessage]
) -> SourceExchange:
    """The exchange of an item; `parse_request` depends on how the tool stores bodies."""
    interaction = fields.require_object(item, "the exchange")
    request = fields.require_message(interaction, "request", _REQUEST_FIELDS)
    response = fields.require_message(interaction, "response", _RESPONSE_FIELDS)
    status = response.get("status")
    if not isinstance(status, dict):
        status = {"code": status or response.get("status_code")}
    recorded_at = interaction.get("recorded_at") or interaction.get("recordedAt")
    return fields.build_exchange(
        request.get("method"),
        request.get("uri"),
        parse_request(request, fields.parse_headers(request.get("headers"))),
        status.get("code"),
        status.get("message"),
        bodies.parse_body(response, fields.parse_headers(response.get("headers"))),
        recorded_at=(fields.normalize_timestamp(recorded_at) if recorded_at else "") or None,
    )


VCR: Final = ForeignFormat(
    "vcr",
    "VCR.py",
    _matches_format,
    _list_items,
    partial(_parse_exchange, parse_request=bodies.parse_vcr_request_body),
)


def _list_ruby_items(parsed_file: ParsedFile) -> list[Any]:
    return list_field(parsed_file.document, "http_interactions")


VCR_RUBY: Final = ForeignFormat(
    "vcr-ruby",
    "VCR for Ruby or R",
    lambda file: file.file_type in ("yaml", "json") and bool(_list_ruby_items(file)),
    _list_ruby_items,
    partial(_parse_exchange, parse_request=bodies.parse_body),
)
