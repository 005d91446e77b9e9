"""Parses form bodies, independent of the random multipart boundary."""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress
from typing import Final
from urllib.parse import parse_qsl

from llm_proxy.turns import Json

_PARAMETER: Final = re.compile(
    r"""\s*;\s*([!#$%&'*+.^_`|~0-9A-Za-z-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]*))"""
)
"""A parameter of a header, whose value may be quoted."""
_LONGEST_TEXT: Final = 64 * 1024
"""Bytes of a part that is kept as text; a longer one is told by its hash."""


def parse_form(content_type: str, body: bytes) -> list[Json] | None:
    """The fields of a form in their order; None where the body is none, or not as it should be.

    Each is an object: its `name`, `filename` and `type` where it has them, further `headers`, and
    its `value`, or the `sha256` and the number of `bytes` of one that is no text.
    """
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "application/x-www-form-urlencoded":
        return _parse_urlencoded(body)
    boundary = _header_parameters(content_type)[0].get("boundary")
    if not kind.startswith("multipart/") or not boundary:
        return None
    return _parse_multipart(body, boundary.encode("latin-1", "replace"))


def _header_parameters(value: str) -> tuple[dict[str, str], bool]:
    """What a header says behind its first word, as it is spelled; and whether that is all of it."""
    fields: dict[str, str] = {}
    place = value.find(";")
    is_all = True
    while place >= 0 and (match := _PARAMETER.match(value, place)) is not None:
        name, quoted, plain = match.groups()
        is_all = is_all and name.lower() not in fields
        fields.setdefault(name.lower(), plain if quoted is None else quoted)
        place = match.end()
    return fields, is_all and (place < 0 or not value[place:].strip())


def _parse_urlencoded(body: bytes) -> list[Json] | None:
    try:
        pairs = parse_qsl(
            body.decode(), keep_blank_values=True, strict_parsing=True, errors="strict"
        )
    except ValueError:
        return None
    return [{"name": name, "value": value} for name, value in pairs]


def _parse_multipart(body: bytes, boundary: bytes) -> list[Json] | None:
    """The parts between the delimiters; what stands before and behind them means nothing."""
    opened, *rest = (b"\r\n" + body).split(b"\r\n--" + boundary)
    del opened
    if len(rest) < 2 or not rest[-1].startswith(b"--"):  # a part, and the end
        return None
    parts = [_parse_part(part) for part in rest[:-1]]
    return None if None in parts else [part for part in parts if part is not None]


def _parse_part(part: bytes) -> Json:
    """One part; None where it has no head."""
    padding, line_end, rest = part.partition(b"\r\n")
    if padding.strip(b" \t") or not line_end:
        return None
    head, blank, content = (b"\r\n" + rest).partition(b"\r\n\r\n")
    if not blank:
        return None
    fields: dict[str, Json] = {}
    rest_of_head: dict[str, Json] = {}
    for line in _decode_part_head(head).split("\r\n")[1:]:
        key, _, value = line.partition(":")
        match key.strip().lower():
            case "content-disposition":
                fields |= _parse_disposition(value.strip())
            case "content-type":
                fields["type"] = value.strip()
            case "content-length":  # says what the content says
                pass
            case other:
                rest_of_head[other] = value.strip()
    if rest_of_head:
        fields["headers"] = rest_of_head
    return fields | part_value(content)


def _parse_disposition(value: str) -> dict[str, Json]:
    """What a part is called; whatever else its disposition says is told as it is spelled."""
    fields, is_all = _header_parameters(value)
    is_plain = is_all and value.partition(";")[0].strip().lower() == "form-data"
    return {**fields} if is_plain else {**fields, "disposition": value}


def _decode_part_head(head: bytes) -> str:
    """A part's head; browsers of old write it in Latin-1."""
    try:
        return head.decode()
    except UnicodeDecodeError:
        return head.decode("latin-1")


def part_value(content: bytes) -> dict[str, Json]:
    """What a part holds: its text, or the hash and the size of what is none."""
    if len(content) <= _LONGEST_TEXT:
        with suppress(UnicodeDecodeError):  # no text
            return {"value": content.decode("utf-8")}
    return {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
