"""Fixtures of nock, as its recorder and `nock.back` write them: a JSON list of objects.

    [{"scope": "https://api.openai.com:443", "method", "path", "body", "status", "response",
      "rawHeaders": [name, value, ...], "reqheaders", "responseIsBinary"}]

A JSON body is stored parsed, a body that is not UTF-8 as hex, and a compressed one as a list of hex
pieces.  A string is therefore ambiguous; the headers must decide.
"""

from __future__ import annotations

import re
from typing import Any, Final

import orjson

from llm_proxy.exchange import Headers, header_value
from llm_proxy.importing import fields
from llm_proxy.importing.formats import bodies
from llm_proxy.importing.source import (
    NO_DATE,
    NO_TIMES,
    ForeignFormat,
    NotImportable,
    ParsedFile,
    SourceExchange,
    first_object,
)

_KNOWN_FIELDS: Final = frozenset(
    ("scope", "port", "method", "path", "body", "status", "reply", "response", "rawHeaders",
     "headers", "reqheaders", "badheaders", "responseIsBinary", "options")
)  # fmt: skip
_HEX: Final = re.compile(r"(?:[0-9a-f]{2})*")
_JSON_HEADERS: Final = (("content-type", "application/json"),)
"""Stand-in for request headers, which nock records only if configured."""


def _matches_format(parsed_file: ParsedFile) -> bool:
    document = first_object(_list_items(parsed_file))
    return (
        isinstance(document.get("scope"), str)
        and "path" in document
        and ("status" in document or "reply" in document)
    )


def _list_items(parsed_file: ParsedFile) -> list[Any]:
    return (
        parsed_file.document
        if parsed_file.file_type == "json" and isinstance(parsed_file.document, list)
        else []
    )


def _parse_exchange(item: Any) -> SourceExchange:
    fixture = fields.require_object(item, "fields")
    fields.reject_unknown_fields(fixture, _KNOWN_FIELDS, "fixture")
    request_body = _parse_request_body(fixture, fields.parse_headers(fixture.get("reqheaders")))
    response_body = _parse_response_body(
        fixture,
        fields.parse_headers(_header_pairs(fixture.get("rawHeaders") or fixture.get("headers"))),
    )
    url = f"{fixture.get('scope')}{fixture.get('path')}"
    request, host = fields.build_request_and_host(
        fixture.get("method"), url, request_body.headers, request_body.raw_body
    )
    recorded = fields.response_date(response_body.headers)
    return SourceExchange(
        request=request,
        host=host,
        status=fields.parse_status(fixture.get("status", fixture.get("reply"))),
        reason_phrase="",
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


def _header_pairs(headers: Any) -> Any:
    """A flat list of alternating names and values as pairs; anything else unchanged."""
    if isinstance(headers, list) and all(isinstance(header, str) for header in headers):
        return list(zip(headers[::2], headers[1::2], strict=False))
    return headers


def _parse_request_body(fixture: dict[str, Any], headers: Headers) -> bodies.ImportedBody:
    body = fixture.get("body", "")
    if isinstance(body, str):
        return _parse_text_body(body, headers, "request", may_be_hex=True)
    return bodies.serialize_parsed_body(body, headers or _JSON_HEADERS)


def _parse_response_body(fixture: dict[str, Any], headers: Headers) -> bodies.ImportedBody:
    response, is_binary = fixture.get("response", ""), fixture.get("responseIsBinary")
    if is_binary:
        return bodies.ImportedBody(_decode_hex([response]), headers)
    if (
        isinstance(response, list)
        and header_value(headers, "content-encoding")
        and _is_hex_list(response)
    ):
        return bodies.ImportedBody(_decode_hex(response), headers)
    if isinstance(response, str):
        return _parse_text_body(response, headers, "response", may_be_hex=is_binary is None)
    return bodies.serialize_parsed_body(response, headers)


def _parse_text_body(
    text: str, headers: Headers, label: str, *, may_be_hex: bool
) -> bodies.ImportedBody:
    """The body of a string, which is text, a JSON string or hex.

    Raises `NotImportable` where it is ambiguous.
    """
    utf8_body, json_body = (
        fields.body_to_bytes(text),
        bodies.serialize_parsed_body(text, _JSON_HEADERS).raw_body,
    )
    candidates = [utf8_body]
    if utf8_body and (_is_json(utf8_body) or bodies.media_type(headers).endswith("json")):
        candidates.append(json_body)
    if may_be_hex and _is_hex_list([text]) and not fields.is_utf8(_decode_hex([text])):
        candidates.append(_decode_hex([text]))
    length = header_value(headers, "content-length")
    if length is not None and len(candidates) > 1:
        candidates = [data for data in candidates if str(len(data)) == length.strip()]
    if len(candidates) != 1:
        raise NotImportable(
            f"the body of its {label} may be text, a string of JSON or hex: nothing tells"
        )
    return bodies.ImportedBody(candidates[0], headers)


def _is_hex_list(pieces: list[Any]) -> bool:
    return all(isinstance(piece, str) and _HEX.fullmatch(piece) for piece in pieces)


def _decode_hex(pieces: list[Any]) -> bytes:
    if not _is_hex_list(pieces):
        raise NotImportable("a body is no hex, as it should be")
    return bytes.fromhex("".join(pieces))


def _is_json(data: bytes) -> bool:
    try:
        orjson.loads(data)
    except ValueError:
        return False
    return True


NOCK: Final = ForeignFormat("nock", "nock", _matches_format, _list_items, _parse_exchange)
