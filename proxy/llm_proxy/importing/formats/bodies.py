"""Parses bodies as VCR.py, similar tools, and VCR for Ruby and R store them."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from llm_proxy.errors import printable_excerpt
from llm_proxy.exchange import Headers, header_value
from llm_proxy.importing import fields, http_text
from llm_proxy.importing.file_parsing import MAX_FILE_BYTES
from llm_proxy.importing.source import PARSED_BODY, ImportLoss, NotImportable

_BODY_FIELDS: Final = ("body", "parsed_body", "content")
"""The fields of a message that may hold its body; only one is set."""
_CONTENT_FIELDS: Final = ("string", "base64_string", "raw_gzip")
"""The fields of a body object that may hold the content; only one is set."""
_FILE_FIELDS: Final = ("file", "on_disk")
_BODY_OBJECT_FIELDS: Final = frozenset((*_CONTENT_FIELDS, *_FILE_FIELDS, "fields", "encoding"))
"""The fields of a body object; an object without any of them is a parsed JSON body."""
_UTF8_ENCODINGS: Final = frozenset(("", "utf-8", "utf8", "us-ascii", "ascii-8bit", "binary"))
"""Encodings whose text is UTF-8 in the file, as VCR for Ruby writes it."""
_CODING_HEADERS: Final = ("content-encoding", "content-length")
"""Headers that no longer fit a reserialised body."""


@dataclass(frozen=True, slots=True)
class ImportedBody:
    """A body, and the headers that fit it."""

    raw_body: bytes
    headers: Headers
    losses: tuple[ImportLoss, ...] = ()


def parse_body(message: dict[str, Any], headers: Headers) -> ImportedBody:
    """Parses the body of a request or a response.  Raises `NotImportable`."""
    present_fields = [name for name in _BODY_FIELDS if message.get(name)]
    if len(present_fields) > 1:
        raise NotImportable(
            f"it has two bodies, {present_fields[0]} and {present_fields[1]}: which is meant "
            "is not known"
        )
    if "parsed_body" in message and present_fields in ([], ["parsed_body"]):
        return _json_body(message["parsed_body"], headers)
    if "content" in message and present_fields in ([], ["content"]):
        return ImportedBody(
            _require_complete_content(fields.body_to_bytes(message["content"]), headers), headers
        )
    body = message.get("body")
    if isinstance(body, dict) and body and not body.keys() & _BODY_OBJECT_FIELDS:
        return _json_body(body, headers)
    if isinstance(body, dict):
        body = _parse_body_object(body)
    return ImportedBody(fields.decode_stored_body(body, message.get("bodyEncoding")), headers)


def parse_vcr_request_body(message: dict[str, Any], headers: Headers) -> ImportedBody:
    """Parses a request body of VCR.py, where an object may be a form or JSON.

    Raises `NotImportable`, also where the headers do not decide between the two.
    """
    body = message.get("body")
    if not isinstance(body, dict | list) or not body:
        imported = parse_body(message, headers)
        return replace(imported, raw_body=_without_chunks(imported.raw_body, headers))
    if not media_type(headers) and _may_be_form(body):
        raise NotImportable(
            "the body of its request was kept as an object, and may be a form or JSON"
        )
    return _json_body(body, headers)


def _json_body(parsed: Any, headers: Headers) -> ImportedBody:
    """A body stored parsed.  Raises `NotImportable` for a media type other than JSON."""
    content_type = media_type(headers)
    if content_type and not content_type.endswith("json") and not isinstance(parsed, str):
        raise NotImportable(
            f"a body of {printable_excerpt(content_type, 80)} was kept as an object, and is no JSON"
        )
    return serialize_parsed_body(parsed, headers)


def _without_chunks(body: bytes, headers: Headers) -> bytes:
    """A body without chunk framing; unchanged where it has none."""
    if (header_value(headers, "transfer-encoding") or "").lower() != "chunked":
        return body
    try:
        return http_text.decode_chunked_body(body, "request")
    except NotImportable:
        return body


def _may_be_form(body: dict[str, Any] | list[Any]) -> bool:
    pairs = list(body.items()) if isinstance(body, dict) else body
    return all(
        isinstance(pair, tuple | list) and len(pair) == 2 and isinstance(pair[1], str | bytes)
        for pair in pairs
    )


def serialize_parsed_body(parsed: Any, headers: Headers) -> ImportedBody:
    """Serialises a body stored parsed.  Raises `NotImportable` for what is not JSON."""
    kept = tuple(header for header in headers if header[0].lower() not in _CODING_HEADERS)
    return ImportedBody(_serialize_json(parsed, headers), kept, (PARSED_BODY,))


def media_type(headers: Headers) -> str:
    """The media type in lower case without parameters; empty without a content type."""
    return (header_value(headers, "content-type") or "").partition(";")[0].strip().lower()


def _require_complete_content(body: bytes, headers: Headers) -> bytes:
    """The `content` of VCR.py 4 and 5, which drops all bytes that are not UTF-8.

    Raises `NotImportable` where neither length nor media type proves that none was dropped.
    """
    length = header_value(headers, "content-length") or ""
    has_byte_length = length.isdecimal() and header_value(headers, "content-encoding") is None
    is_empty = not body and not media_type(headers)
    is_whole = (
        len(body) >= int(length[:19])
        if has_byte_length
        else is_empty or _is_utf8_text_type(headers)
    )
    if not is_whole:
        raise NotImportable("its body was kept as text, without the bytes that are none")
    return body


def _is_utf8_text_type(headers: Headers) -> bool:
    """Whether the content type is text in UTF-8."""
    charset = (
        (header_value(headers, "content-type") or "").lower().partition("charset=")[2].strip('" ')
    )
    content_type = media_type(headers)
    is_text = content_type.startswith("text/") or content_type.endswith(
        ("json", "jsonl", "xml", "urlencoded")
    )
    return is_text and charset in ("", "utf-8", "utf8", "us-ascii")


def _parse_body_object(body: dict[str, Any]) -> Any:
    """The text or the bytes of a body object."""
    fields.reject_unknown_fields(body, _BODY_OBJECT_FIELDS, "body")
    if any(body.get(name) for name in _FILE_FIELDS):
        raise NotImportable("a body is in a file of its own")
    if body.get("fields"):
        raise NotImportable("a body was kept as the fields of a form")
    if sum(body.get(name) is not None for name in _CONTENT_FIELDS) > 1:
        raise NotImportable("it has two bodies: which is meant is not known")
    if body.get("base64_string") is not None:
        return fields.decode_base64_body(body["base64_string"])
    if body.get("raw_gzip") is not None:
        return _decompress_vcr_r(fields.decode_base64_body(body["raw_gzip"]))
    return _encode_text(body.get("string"), str(body.get("encoding") or ""))


def _decompress_vcr_r(data: bytes) -> bytes:
    decompressor = zlib.decompressobj(zlib.MAX_WBITS | 32)
    try:
        plain = decompressor.decompress(data, MAX_FILE_BYTES)
    except zlib.error:
        raise NotImportable("a body is not packed, as it should be") from None
    if not decompressor.eof or decompressor.unused_data:
        raise NotImportable("a body is packed, and has no end or no room here")
    return plain


def _encode_text(text: Any, encoding: str) -> Any:
    if not isinstance(text, str) or encoding.lower() in _UTF8_ENCODINGS:
        return text
    try:
        return text.encode(encoding)
    except (LookupError, ValueError):
        shown_encoding = printable_excerpt(encoding, 80)
        raise NotImportable(f"a body cannot be written in its encoding, {shown_encoding}") from None


def _serialize_json(parsed: Any, headers: Headers) -> bytes:
    if isinstance(parsed, str) and not media_type(headers).endswith("json"):
        return parsed.encode("utf-8", "surrogatepass")
    try:
        return orjson.dumps(parsed)
    except TypeError:
        raise NotImportable("a body was kept parsed, and is no JSON") from None
