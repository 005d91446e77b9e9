"""Parses bodies as VCR.py, similar tools, and VCR for Ruby and R store them."""

from __future__ import annotations

import zlib
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from llm_proxy.errors import printable_excerpt
from llm_proxy.exchange import Headers, header_value
from llm_proxy.importing import fields
from llm_proxy.importing.file_parsing import MAX_FILE_BYTES
from llm_proxy.importing.source import PARSED_BODY, NotImportable, SourceMessage

_BODY_FIELDS: Final = ("body", "parsed_body", "content")
"""The fields of a message that may hold its body; only one is set."""
_CONTENT_FIELDS: Final = ("string", "base64_string", "raw_gzip")
"""The fields of a body object that may hold the content; only one is set."""
_FILE_FIELDS: Final = ("file", "on_disk")
_BODY_OBJECT_FIELDS: Final = frozenset((*_CONTENT_FIELDS, *_FILE_FIELDS, "fields", "encoding"))
"""The fields of a body object; an object without any of them is a parsed JSON body."""
_UTF8_ENCODINGS: Final = frozenset(("", "utf-8", "utf8", "us-ascii", "ascii-8bit", "binary"))
"""Encodings whose text is UTF-8 in the file, as VCR for Ruby writes it."""
_TEXT_TYPE_ENDS: Final = ("json", "jsonl", "xml", "urlencoded")
"""Ends of media types whose bodies are text, beside `text/`."""
_UTF8_CHARSETS: Final = ("", "utf-8", "utf8", "us-ascii")


def parse_body(message: dict[str, Any], headers: Headers) -> SourceMessage:
    """Parses the body of a request or a response.  Raises `NotImportable`."""
    present_fields = [name for name in _BODY_FIELDS if message.get(name)]
    if len(present_fields) > 1:
        raise NotImportable(
            f"a request or response has two bodies, in {present_fields[0]} and {present_fields[1]}"
        )
    if "parsed_body" in message and present_fields in ([], ["parsed_body"]):
        return _json_body(message["parsed_body"], headers)
    if "content" in message and present_fields in ([], ["content"]):
        content = fields.body_to_bytes(message["content"])
        return SourceMessage(headers, _require_complete_content(content, headers))
    body = message.get("body")
    if isinstance(body, dict):
        if body and not body.keys() & _BODY_OBJECT_FIELDS:
            return _json_body(body, headers)
        body = _parse_body_object(body)
    return SourceMessage(headers, fields.decode_stored_body(body, message.get("bodyEncoding")))


def parse_vcr_request_body(message: dict[str, Any], headers: Headers) -> SourceMessage:
    """Parses a request body of VCR.py, where an object may be a form or JSON.

    Raises `NotImportable`, also where the headers do not decide between the two.
    """
    body = message.get("body")
    if not isinstance(body, dict | list) or not body:
        parsed = parse_body(message, headers)
        if (header_value(headers, "transfer-encoding") or "").lower() == "chunked":
            with suppress(NotImportable):  # a body without chunk framing stays
                return replace(parsed, body=fields.decode_chunked_body(parsed.body, "request"))
        return parsed
    pairs = list(body.items()) if isinstance(body, dict) else body
    may_be_form = all(
        isinstance(pair, tuple | list) and len(pair) == 2 and isinstance(pair[1], str | bytes)
        for pair in pairs
    )
    if may_be_form and not fields.media_type(headers):
        raise NotImportable(
            "cannot tell whether the request body is a form or JSON: the body is stored as an "
            "object, and the request has no content type"
        )
    return _json_body(body, headers)


def _json_body(parsed: Any, headers: Headers) -> SourceMessage:
    """A body stored parsed.  Raises `NotImportable` for a media type other than JSON."""
    content_type = fields.media_type(headers)
    if content_type and not content_type.endswith("json") and not isinstance(parsed, str):
        raise NotImportable(
            "a body is stored as JSON, but its content type is "
            f"{printable_excerpt(content_type, 80)}"
        )
    return serialize_parsed_body(parsed, headers)


def serialize_parsed_body(parsed: Any, headers: Headers) -> SourceMessage:
    """Serialises a body stored parsed.  Raises `NotImportable` for what is not JSON."""
    is_plain = isinstance(parsed, str) and not fields.media_type(headers).endswith("json")
    body = fields.body_to_bytes(parsed) if is_plain else fields.dump_json(parsed)
    return SourceMessage(fields.without_coding_headers(headers), body, (PARSED_BODY,))


def _require_complete_content(body: bytes, headers: Headers) -> bytes:
    """The `content` of VCR.py 4 and 5, which drops all bytes that are not UTF-8.

    Raises `NotImportable` where neither length nor media type proves that none was dropped.
    """
    length = header_value(headers, "content-length") or ""
    content_type = fields.media_type(headers)
    if length.isdecimal() and header_value(headers, "content-encoding") is None:
        is_whole = len(body) >= int(length[:19])
    elif content_type.startswith("text/") or content_type.endswith(_TEXT_TYPE_ENDS):
        full_type = (header_value(headers, "content-type") or "").lower()
        is_whole = full_type.partition("charset=")[2].strip('" ') in _UTF8_CHARSETS
    else:
        is_whole = not body and not content_type
    if not is_whole:
        raise NotImportable(
            "a body may be incomplete: the recording tool drops bytes that are not valid UTF-8"
        )
    return body


def _parse_body_object(body: dict[str, Any]) -> Any:
    """The text or the bytes of a body object."""
    fields.reject_unknown_fields(body, _BODY_OBJECT_FIELDS, "a body")
    if any(body.get(name) for name in _FILE_FIELDS):
        raise NotImportable("a body is stored in a separate file, which import does not read")
    if body.get("fields"):
        raise NotImportable("a body is stored as form fields, which is not supported")
    if sum(body.get(name) is not None for name in _CONTENT_FIELDS) > 1:
        raise NotImportable(f"a body has more than one of the fields {', '.join(_CONTENT_FIELDS)}")
    if body.get("base64_string") is not None:
        return fields.decode_base64_body(body["base64_string"])
    if body.get("raw_gzip") is not None:
        return _decompress_vcr_r(fields.decode_base64_body(body["raw_gzip"]))
    text, encoding = body.get("string"), str(body.get("encoding") or "")
    if not isinstance(text, str) or encoding.lower() in _UTF8_ENCODINGS:
        return text
    try:
        return text.encode(encoding)
    except (LookupError, ValueError):
        shown_encoding = printable_excerpt(encoding, 80)
        raise NotImportable(f"the text of a body cannot be encoded as '{shown_encoding}'") from None


def _decompress_vcr_r(data: bytes) -> bytes:
    decompressor = zlib.decompressobj(zlib.MAX_WBITS | 32)
    try:
        plain = decompressor.decompress(data, MAX_FILE_BYTES)
    except zlib.error:
        raise NotImportable("a body is not valid gzip data") from None
    if not decompressor.eof or decompressor.unused_data:
        raise NotImportable("the gzip data of a body is truncated or too large")
    return plain
