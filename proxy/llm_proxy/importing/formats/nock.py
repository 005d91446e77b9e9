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

from llm_proxy.exchange import Headers, header
from llm_proxy.importing import fields
from llm_proxy.importing.formats import bodies
from llm_proxy.importing.source import (
    NO_DATE,
    NO_TIMES,
    Format,
    Opened,
    SourceExchange,
    Unfit,
    first,
)

_KNOWN: Final = frozenset(
    ("scope", "port", "method", "path", "body", "status", "reply", "response", "rawHeaders",
     "headers", "reqheaders", "badheaders", "responseIsBinary", "options")
)  # fmt: skip
_HEX: Final = re.compile(r"(?:[0-9a-f]{2})*")
_JSON: Final = (("content-type", "application/json"),)
"""What stands for the headers of a request, which a fixture keeps only where it is told to."""


def _claims(opened: Opened) -> bool:
    it = first(_items(opened))
    return isinstance(it.get("scope"), str) and "path" in it and ("status" in it or "reply" in it)


def _items(opened: Opened) -> list[Any]:
    return opened.document if opened.kind == "json" and isinstance(opened.document, list) else []


def _exchange(item: Any) -> SourceExchange:
    it = fields.fields(item, "fields")
    fields.only(it, _KNOWN, "fixture")
    sent = _sent(it, fields.headers(it.get("reqheaders")))
    came = _came(it, fields.headers(_paired(it.get("rawHeaders") or it.get("headers"))))
    url = f"{it.get('scope')}{it.get('path')}"
    request, host = fields.request(it.get("method"), url, sent.headers, sent.data)
    recorded = fields.date_of(came.headers)
    return SourceExchange(
        request=request,
        host=host,
        status=fields.status(it.get("status", it.get("reply"))),
        reason="",
        headers=came.headers,
        body=came.data,
        recorded=recorded,
        losses=(NO_TIMES, *sent.losses, *came.losses, *(() if recorded else (NO_DATE,))),
    )


def _paired(headers: Any) -> Any:
    """Headers as pairs, where they are a list of names and values in turn."""
    if isinstance(headers, list) and all(isinstance(it, str) for it in headers):
        return list(zip(headers[::2], headers[1::2], strict=False))
    return headers


def _sent(fixture: dict[str, Any], headers: Headers) -> bodies.Body:
    body = fixture.get("body", "")
    if isinstance(body, str):
        return _text(body, headers, "request", may_be_hex=True)
    return bodies.anew(body, headers or _JSON)


def _came(fixture: dict[str, Any], headers: Headers) -> bodies.Body:
    response, is_binary = fixture.get("response", ""), fixture.get("responseIsBinary")
    if is_binary:
        return bodies.Body(_bytes([response]), headers)
    if isinstance(response, list) and header(headers, "content-encoding") and _is_hex(response):
        return bodies.Body(_bytes(response), headers)
    if isinstance(response, str):
        return _text(response, headers, "response", may_be_hex=is_binary is None)
    return bodies.anew(response, headers)


def _text(text: str, headers: Headers, what: str, *, may_be_hex: bool) -> bodies.Body:
    """A body that is text, or text that was JSON, or hex.  Raises `Unfit` where nothing tells."""
    plain, quoted = fields.content(text), bodies.anew(text, _JSON).data
    found = [plain]
    if plain and (_is_json(plain) or bodies.media_type(headers).endswith("json")):
        found.append(quoted)
    if may_be_hex and _is_hex([text]) and not fields.is_text(_bytes([text])):
        found.append(_bytes([text]))
    length = header(headers, "content-length")
    if length is not None and len(found) > 1:
        found = [it for it in found if str(len(it)) == length.strip()]
    if len(found) != 1:
        raise Unfit(f"the body of its {what} may be text, a string of JSON or hex: nothing tells")
    return bodies.Body(found[0], headers)


def _is_hex(pieces: list[Any]) -> bool:
    return all(isinstance(it, str) and _HEX.fullmatch(it) for it in pieces)


def _bytes(pieces: list[Any]) -> bytes:
    if not _is_hex(pieces):
        raise Unfit("a body is no hex, as it should be")
    return bytes.fromhex("".join(pieces))


def _is_json(data: bytes) -> bool:
    try:
        orjson.loads(data)
    except ValueError:
        return False
    return True


NOCK: Final = Format("nock", "nock", _claims, _items, _exchange)
