"""Parses form bodies, independent of the random multipart boundary."""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress
from typing import Final
from urllib.parse import parse_qsl

from llm_proxy.turns import Json

_HEADER_PARAMETER: Final = re.compile(
    r"""\s*;\s*([!#$%&'*+.^_`|~0-9A-Za-z-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]*))"""
)
"""A parameter of a header; its value may be quoted."""
_MAX_TEXT_BYTES: Final = 64 * 1024
"""The longest part that is kept as text; a longer one is represented by its hash."""


def parse_form(content_type: str, body: bytes) -> list[Json] | None:
    """The fields of a form in order; None if the body is no form, or malformed.

    Each is an object: `name`, `filename` and `type` if present, other `headers`, and its `value`;
    for binary content `sha256` and the number of `bytes` instead.
    """
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type == "application/x-www-form-urlencoded":
        return _parse_urlencoded(body)
    boundary = _header_parameters(content_type)[0].get("boundary")
    if not media_type.startswith("multipart/") or not boundary:
        return None
    return _parse_multipart(body, boundary.encode("latin-1", "replace"))


def _header_parameters(value: str) -> tuple[dict[str, str], bool]:
    """The parameters of a header value by name, and whether that is the whole value.

    It is not if a name is repeated, or if a part could not be parsed.
    """
    fields: dict[str, str] = {}
    offset = value.find(";")
    is_fully_parsed = True
    while offset >= 0 and (match := _HEADER_PARAMETER.match(value, offset)) is not None:
        name, quoted, plain = match.groups()
        is_fully_parsed = is_fully_parsed and name.lower() not in fields
        fields.setdefault(name.lower(), plain if quoted is None else quoted)
        offset = match.end()
    return fields, is_fully_parsed and (offset < 0 or not value[offset:].strip())


def _parse_urlencoded(body: bytes) -> list[Json] | None:
    try:
        pairs = parse_qsl(
            body.decode(), keep_blank_values=True, strict_parsing=True, errors="strict"
        )
    except ValueError:
        return None
    return [{"name": name, "value": value} for name, value in pairs]


def _parse_multipart(body: bytes, boundary: bytes) -> list[Json] | None:
    """The parts between the delimiters; preamble and epilogue are ignored."""
    preamble, *raw_parts = (b"\r\n" + body).split(b"\r\n--" + boundary)
    del preamble
    if len(raw_parts) < 2 or not raw_parts[-1].startswith(b"--"):  # at least one part, and the end
        return None
    parts = [_parse_part(part) for part in raw_parts[:-1]]
    return None if None in parts else [part for part in parts if part is not None]


def _parse_part(part: bytes) -> Json:
    """One part as an object; None if it has no head."""
    padding, line_end, rest = part.partition(b"\r\n")
    if padding.strip(b" \t") or not line_end:
        return None
    head, blank, content = (b"\r\n" + rest).partition(b"\r\n\r\n")
    if not blank:
        return None
    fields: dict[str, Json] = {}
    other_headers: dict[str, Json] = {}
    for line in _decode_part_head(head).split("\r\n")[1:]:
        key, _, value = line.partition(":")
        match key.strip().lower():
            case "content-disposition":
                fields |= _parse_disposition(value.strip())
            case "content-type":
                fields["type"] = value.strip()
            case "content-length":  # redundant: the content counts
                pass
            case other:
                other_headers[other] = value.strip()
    if other_headers:
        fields["headers"] = other_headers
    return fields | part_content_fields(content)


def _parse_disposition(value: str) -> dict[str, Json]:
    """Name and file name of a part; an unusual header is kept as `disposition` too."""
    fields, is_fully_parsed = _header_parameters(value)
    is_plain_form_data = is_fully_parsed and value.partition(";")[0].strip().lower() == "form-data"
    return {**fields} if is_plain_form_data else {**fields, "disposition": value}


def _decode_part_head(head: bytes) -> str:
    """A part's head; old browsers send it in Latin-1."""
    try:
        return head.decode()
    except UnicodeDecodeError:
        return head.decode("latin-1")


def part_content_fields(content: bytes) -> dict[str, Json]:
    """The content of a part: `value`, or `sha256` and `bytes` if it is binary or long."""
    if len(content) <= _MAX_TEXT_BYTES:
        with suppress(UnicodeDecodeError):  # binary
            return {"value": content.decode("utf-8")}
    return {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
