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
    ForeignFormat,
    NotImportable,
    ParsedFile,
    SourceExchange,
    SourceMessage,
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
    is_list = parsed_file.file_type == "json" and isinstance(parsed_file.document, list)
    return parsed_file.document if is_list else []


def _parse_exchange(item: Any) -> SourceExchange:
    fixture = fields.require_object(item, "the fixture")
    fields.reject_unknown_fields(fixture, _KNOWN_FIELDS, "the fixture")
    return fields.build_exchange(
        fixture.get("method"),
        f"{fixture.get('scope')}{fixture.get('path')}",
        _parse_request(fixture),
        fixture.get("status", fixture.get("reply")),
        "",
        _parse_response(fixture),
    )


def _parse_request(fixture: dict[str, Any]) -> SourceMessage:
    headers = fields.parse_headers(fixture.get("reqheaders"))
    body = fixture.get("body", "")
    if isinstance(body, str):
        return _parse_text_body(body, headers, "request", may_be_hex=True)
    return bodies.serialize_parsed_body(body, headers or _JSON_HEADERS)


def _parse_response(fixture: dict[str, Any]) -> SourceMessage:
    raw_headers = fixture.get("rawHeaders") or fixture.get("headers")
    if isinstance(raw_headers, list) and all(isinstance(item, str) for item in raw_headers):
        raw_headers = list(zip(raw_headers[::2], raw_headers[1::2], strict=False))
    headers = fields.parse_headers(raw_headers)
    body, is_binary = fixture.get("response", ""), fixture.get("responseIsBinary")
    if is_binary:
        return SourceMessage(headers, _decode_hex([body]))
    is_encoded = header_value(headers, "content-encoding")
    if isinstance(body, list) and is_encoded and _is_hex_list(body):
        return SourceMessage(headers, _decode_hex(body))
    if isinstance(body, str):
        return _parse_text_body(body, headers, "response", may_be_hex=is_binary is None)
    return bodies.serialize_parsed_body(body, headers)


def _parse_text_body(text: str, headers: Headers, label: str, *, may_be_hex: bool) -> SourceMessage:
    """The body of a string, which is text, a JSON string or hex.

    Raises `NotImportable` where it is ambiguous.
    """
    utf8_body = fields.body_to_bytes(text)
    candidates = [utf8_body]
    if utf8_body and (_is_json(utf8_body) or fields.media_type(headers).endswith("json")):
        candidates.append(fields.dump_json(text))
    if may_be_hex and _is_hex_list([text]) and not fields.is_utf8(_decode_hex([text])):
        candidates.append(_decode_hex([text]))
    length = header_value(headers, "content-length")
    if length is not None and len(candidates) > 1:
        candidates = [data for data in candidates if str(len(data)) == length.strip()]
    if len(candidates) != 1:
        raise NotImportable(
            f"the {label} body is ambiguous: it may be text, a JSON string or hex, and no "
            "header shows which"
        )
    return SourceMessage(headers, candidates[0])


def _is_hex_list(pieces: list[Any]) -> bool:
    return all(isinstance(piece, str) and _HEX.fullmatch(piece) for piece in pieces)


def _decode_hex(pieces: list[Any]) -> bytes:
    if not _is_hex_list(pieces):
        raise NotImportable("a body is not valid hex")
    return bytes.fromhex("".join(pieces))


def _is_json(data: bytes) -> bool:
    try:
        orjson.loads(data)
    except ValueError:
        return False
    return True


NOCK: Final = ForeignFormat("nock", "nock", _matches_format, _list_items, _parse_exchange)
