"""Parses bodies as VCR.py, its relatives and VCR for Ruby and R store them."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from llm_proxy.errors import printable
from llm_proxy.exchange import Headers, header_value
from llm_proxy.importing import fields, http_text
from llm_proxy.importing.documents import MAX_FILE
from llm_proxy.importing.source import PARSED_BODY, ImportLoss, NotImportable

_BODIES: Final = ("body", "parsed_body", "content")
"""The fields of a message that hold its body, of which it has one."""
_SPELLINGS: Final = ("string", "base64_string", "raw_gzip")
"""The fields of an object that hold a body, of which it has one."""
_ELSEWHERE: Final = ("file", "on_disk")
_OF_A_BODY: Final = frozenset((*_SPELLINGS, *_ELSEWHERE, "fields", "encoding"))
"""What stands in an object that holds a body; one with other names alone is a body, parsed."""
_AS_UTF_8: Final = frozenset(("", "utf-8", "utf8", "us-ascii", "ascii-8bit", "binary"))
"""Encodings whose text is written in UTF-8, as VCR for Ruby does."""
_CODING: Final = ("content-encoding", "content-length")
"""Headers that are of the bytes, where those were written anew."""


@dataclass(frozen=True, slots=True)
class ImportedBody:
    """A body, and the headers that fit it."""

    data: bytes
    headers: Headers
    losses: tuple[ImportLoss, ...] = ()


def parse_body(message: dict[str, Any], headers: Headers) -> ImportedBody:
    """The body of a request or a response.  Raises `NotImportable`."""
    held = [name for name in _BODIES if message.get(name)]
    if len(held) > 1:
        raise NotImportable(
            f"it has two bodies, {held[0]} and {held[1]}: which is meant is not known"
        )
    if "parsed_body" in message and held in ([], ["parsed_body"]):
        return _json_body(message["parsed_body"], headers)
    if "content" in message and held in ([], ["content"]):
        return ImportedBody(
            _parse_vcr_content(fields.parse_content(message["content"]), headers), headers
        )
    body = message.get("body")
    if isinstance(body, dict) and body and not body.keys() & _OF_A_BODY:
        return _json_body(body, headers)
    if isinstance(body, dict):
        body = _parse_body_object(body)
    return ImportedBody(fields.parse_text_body(body, message.get("bodyEncoding")), headers)


def parse_vcr_request_body(message: dict[str, Any], headers: Headers) -> ImportedBody:
    """The body of a request of VCR.py, whose objects are what a program gave: a form, or JSON.

    Raises `NotImportable`, also where nothing says which of the two.
    """
    body = message.get("body")
    if not isinstance(body, dict | list) or not body:
        plain = parse_body(message, headers)
        return replace(plain, data=_without_chunks(plain.data, headers))
    if not media_type(headers) and _may_be_form(body):
        raise NotImportable(
            "the body of its request was kept as an object, and may be a form or JSON"
        )
    return _json_body(body, headers)


def _json_body(parsed: Any, headers: Headers) -> ImportedBody:
    """A body that was kept parsed, which only JSON is."""
    kind = media_type(headers)
    if kind and not kind.endswith("json") and not isinstance(parsed, str):
        raise NotImportable(
            f"a body of {printable(kind, 80)} was kept as an object, and is no JSON"
        )
    return reserialize_body(parsed, headers)


def _without_chunks(body: bytes, headers: Headers) -> bytes:
    """A body without the chunks in which a program sent it, where those were kept."""
    if (header_value(headers, "transfer-encoding") or "").lower() != "chunked":
        return body
    try:
        return http_text.decode_chunks(body, "request")
    except NotImportable:
        return body


def _may_be_form(body: dict[str, Any] | list[Any]) -> bool:
    pairs = list(body.items()) if isinstance(body, dict) else body
    return all(
        isinstance(pair, tuple | list) and len(pair) == 2 and isinstance(pair[1], str | bytes)
        for pair in pairs
    )


def reserialize_body(parsed: Any, headers: Headers) -> ImportedBody:
    """A body that was kept parsed.  Raises `NotImportable` for what is no JSON."""
    kept = tuple(header for header in headers if header[0].lower() not in _CODING)
    return ImportedBody(_serialize_json(parsed, headers), kept, (PARSED_BODY,))


def media_type(headers: Headers) -> str:
    """The media type that a head says, in lower case and without parameters."""
    return (header_value(headers, "content-type") or "").partition(";")[0].strip().lower()


def _parse_vcr_content(body: bytes, headers: Headers) -> bytes:
    """The `content` of VCR.py 4 and 5, which left out all bytes that are no UTF-8.

    Raises `NotImportable` where neither its length nor its type says that it did not.
    """
    length = header_value(headers, "content-length") or ""
    is_counted = length.isdecimal() and header_value(headers, "content-encoding") is None
    is_none = not body and not media_type(headers)
    is_whole = (
        len(body) >= int(length[:19]) if is_counted else is_none or _is_utf8_text_type(headers)
    )
    if not is_whole:
        raise NotImportable("its body was kept as text, without the bytes that are none")
    return body


def _is_utf8_text_type(headers: Headers) -> bool:
    """Whether a head says that its body is text in UTF-8."""
    charset = (
        (header_value(headers, "content-type") or "").lower().partition("charset=")[2].strip('" ')
    )
    kind = media_type(headers)
    is_text = kind.startswith("text/") or kind.endswith(("json", "jsonl", "xml", "urlencoded"))
    return is_text and charset in ("", "utf-8", "utf8", "us-ascii")


def _parse_body_object(body: dict[str, Any]) -> Any:
    """The text or the bytes of an object that holds a body."""
    fields.check_known_fields(body, _OF_A_BODY, "body")
    if any(body.get(name) for name in _ELSEWHERE):
        raise NotImportable("a body is in a file of its own")
    if body.get("fields"):
        raise NotImportable("a body was kept as the fields of a form")
    if sum(body.get(name) is not None for name in _SPELLINGS) > 1:
        raise NotImportable("it has two bodies: which is meant is not known")
    if body.get("base64_string") is not None:
        return fields.parse_base64(body["base64_string"])
    if body.get("raw_gzip") is not None:
        return _decompress_vcr_r(fields.parse_base64(body["raw_gzip"]))
    return _encode_text(body.get("string"), str(body.get("encoding") or ""))


def _decompress_vcr_r(data: bytes) -> bytes:
    inflate = zlib.decompressobj(zlib.MAX_WBITS | 32)
    try:
        plain = inflate.decompress(data, MAX_FILE)
    except zlib.error:
        raise NotImportable("a body is not packed, as it should be") from None
    if not inflate.eof or inflate.unused_data:
        raise NotImportable("a body is packed, and has no end or no room here")
    return plain


def _encode_text(text: Any, encoding: str) -> Any:
    if not isinstance(text, str) or encoding.lower() in _AS_UTF_8:
        return text
    try:
        return text.encode(encoding)
    except (LookupError, ValueError):
        named = printable(encoding, 80)
        raise NotImportable(f"a body cannot be written in its encoding, {named}") from None


def _serialize_json(parsed: Any, headers: Headers) -> bytes:
    if isinstance(parsed, str) and not media_type(headers).endswith("json"):
        return parsed.encode("utf-8", "surrogatepass")
    try:
        return orjson.dumps(parsed)
    except TypeError:
        raise NotImportable("a body was kept parsed, and is no JSON") from None
