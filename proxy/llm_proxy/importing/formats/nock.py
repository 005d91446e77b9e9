"""Fixtures of nock, as its recorder and `nock.back` write them: a JSON list of objects.

    [{"scope": "https://api.openai.com:443", "method", "path", "body", "status", "response",
      "rawHeaders": [name, value, ...], "reqheaders", "responseIsBinary"}]

A body that is JSON was parsed, one that is no UTF-8 is in hex, and one that is compressed is a list
of pieces in hex.  Of text, that leaves open what it was; what its head says must tell.
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
    OpenedFile,
    SourceExchange,
    first_readable,
)

_KNOWN: Final = frozenset(
    ("scope", "port", "method", "path", "body", "status", "reply", "response", "rawHeaders",
     "headers", "reqheaders", "badheaders", "responseIsBinary", "options")
)  # fmt: skip
_HEX: Final = re.compile(r"(?:[0-9a-f]{2})*")
_JSON: Final = (("content-type", "application/json"),)
"""What stands for the headers of a request, which a fixture keeps only where it is told to."""


def _matches_format(opened: OpenedFile) -> bool:
    document = first_readable(_list_items(opened))
    return (
        isinstance(document.get("scope"), str)
        and "path" in document
        and ("status" in document or "reply" in document)
    )


def _list_items(opened: OpenedFile) -> list[Any]:
    return opened.document if opened.kind == "json" and isinstance(opened.document, list) else []


def _parse_exchange(item: Any) -> SourceExchange:
    document = fields.parse_fields(item, "fields")
    fields.check_known_fields(document, _KNOWN, "fixture")
    sent = _parse_request_body(document, fields.parse_headers(document.get("reqheaders")))
    came = _parse_response_body(
        document,
        fields.parse_headers(_header_pairs(document.get("rawHeaders") or document.get("headers"))),
    )
    url = f"{document.get('scope')}{document.get('path')}"
    request, host = fields.parse_request(document.get("method"), url, sent.headers, sent.data)
    recorded = fields.response_date(came.headers)
    return SourceExchange(
        request=request,
        host=host,
        status=fields.parse_status(document.get("status", document.get("reply"))),
        reason="",
        headers=came.headers,
        body=came.data,
        recorded=recorded,
        losses=(NO_TIMES, *sent.losses, *came.losses, *(() if recorded else (NO_DATE,))),
    )


def _header_pairs(headers: Any) -> Any:
    """Headers as pairs, where they are a list of names and values in turn."""
    if isinstance(headers, list) and all(isinstance(header, str) for header in headers):
        return list(zip(headers[::2], headers[1::2], strict=False))
    return headers


def _parse_request_body(fixture: dict[str, Any], headers: Headers) -> bodies.ImportedBody:
    body = fixture.get("body", "")
    if isinstance(body, str):
        return _parse_text_body(body, headers, "request", may_be_hex=True)
    return bodies.reserialize_body(body, headers or _JSON)


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
    return bodies.reserialize_body(response, headers)


def _parse_text_body(
    text: str, headers: Headers, content: str, *, may_be_hex: bool
) -> bodies.ImportedBody:
    """A body that is text, or text that was JSON, or hex.

    Raises `NotImportable` where nothing tells.
    """
    plain, quoted = fields.parse_content(text), bodies.reserialize_body(text, _JSON).data
    found = [plain]
    if plain and (_is_json(plain) or bodies.media_type(headers).endswith("json")):
        found.append(quoted)
    if may_be_hex and _is_hex_list([text]) and not fields.is_utf8(_decode_hex([text])):
        found.append(_decode_hex([text]))
    length = header_value(headers, "content-length")
    if length is not None and len(found) > 1:
        found = [data for data in found if str(len(data)) == length.strip()]
    if len(found) != 1:
        raise NotImportable(
            f"the body of its {content} may be text, a string of JSON or hex: nothing tells"
        )
    return bodies.ImportedBody(found[0], headers)


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
