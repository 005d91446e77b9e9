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
        try:
            pairs = parse_qsl(
                body.decode(), keep_blank_values=True, strict_parsing=True, errors="strict"
            )
        except ValueError:
            return None
        return [{"name": name, "value": value} for name, value in pairs]
    boundary = _header_parameters(content_type)[0].get("boundary")
    if not media_type.startswith("multipart/") or not boundary:
        return None
    # Preamble and epilogue are ignored.
    delimiter = b"\r\n--" + boundary.encode("latin-1", "replace")
    _, *raw_parts = (b"\r\n" + body).split(delimiter)
    if len(raw_parts) < 2 or not raw_parts[-1].startswith(b"--"):  # at least one part, and the end
        return None
    parts = [_parse_part(part) for part in raw_parts[:-1]]
    return None if None in parts else parts


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


def _parse_part(part: bytes) -> Json:
    """One part as an object; None if it has no head."""
    padding, line_end, rest = part.partition(b"\r\n")
    if padding.strip(b" \t") or not line_end:
        return None
    head, blank, content = (b"\r\n" + rest).partition(b"\r\n\r\n")
    if not blank:
        return None
    try:
        head_text = head.decode()
    except UnicodeDecodeError:  # old browsers send Latin-1
        head_text = head.decode("latin-1")
    fields: dict[str, Json] = {}
    other_headers: dict[str, Json] = {}
    for line in head_text.split("\r\n")[1:]:
        key, _, value = line.partition(":")
        value = value.strip()
        match key.strip().lower():
            case "content-disposition":
                parameters, is_fully_parsed = _header_parameters(value)
                fields |= parameters
                if not is_fully_parsed or value.partition(";")[0].strip().lower() != "form-data":
                    fields["disposition"] = value
            case "content-type":
                fields["type"] = value
            case "content-length":  # redundant: the content counts
                pass
            case other:
                other_headers[other] = value
    if other_headers:
        fields["headers"] = other_headers
    if len(content) <= _MAX_TEXT_BYTES:
        with suppress(UnicodeDecodeError):  # binary
            return {**fields, "value": content.decode("utf-8")}
    return {**fields, "sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
