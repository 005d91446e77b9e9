"""The fields of a form, parsed: what a multipart body says, whatever its random boundary is."""

from __future__ import annotations

import hashlib
import re
from typing import Final
from urllib.parse import parse_qsl

from llm_proxy.turns import Json

_BOUNDARY: Final = re.compile(r'boundary=(?:"([^"]+)"|([^\s";,]+))', re.IGNORECASE)
_PARAMETER: Final = re.compile(r';\s*(name|filename)="((?:[^"\\]|\\.)*)"', re.IGNORECASE)
_LONGEST_TEXT: Final = 64 * 1024
"""Bytes of a part that is kept as text; a longer one is told by its hash."""


def fields(content_type: str, body: bytes) -> list[Json] | None:
    """The fields of a form in their order; None where the body is none, or not as it should be.

    Each is an object: its `name`, its `filename` and `type` where it has them, and its `value`,
    or the `sha256` and the number of `bytes` of one that is no text.
    """
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "application/x-www-form-urlencoded":
        return _urlencoded(body)
    boundary = _BOUNDARY.search(content_type)
    if not kind.startswith("multipart/") or boundary is None:
        return None
    return _multipart(body, (boundary[1] or boundary[2]).encode("latin-1", "replace"))


def _urlencoded(body: bytes) -> list[Json] | None:
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, strict_parsing=True)
    except ValueError:
        return None
    return [{"name": name, "value": value} for name, value in pairs]


def _multipart(body: bytes, boundary: bytes) -> list[Json] | None:
    """The parts between the delimiters; what stands before and behind them means nothing."""
    opened, *rest = (b"\r\n" + body).split(b"\r\n--" + boundary)
    del opened
    if len(rest) < 2 or not rest[-1].startswith(b"--"):  # a part, and the end
        return None
    parts = [_part(part) for part in rest[:-1]]
    return None if None in parts else [part for part in parts if part is not None]


def _part(part: bytes) -> Json:
    """One part; None where it has no head."""
    padding, line_end, rest = part.partition(b"\r\n")
    if padding.strip(b" \t") or not line_end:
        return None
    head, blank, content = (b"\r\n" + rest).partition(b"\r\n\r\n")
    if not blank:
        return None
    lines = head.decode("utf-8", "replace").split("\r\n")
    named = {
        key.strip().lower(): value.strip() for key, _, value in (it.partition(":") for it in lines)
    }
    told: dict[str, Json] = {}
    for name, value in _PARAMETER.findall(named.get("content-disposition", "")):
        told[name.lower()] = value
    if kind := named.get("content-type", ""):
        told["type"] = kind
    return told | value_of(content)


def value_of(content: bytes) -> dict[str, Json]:
    """What a part holds: its text, or the hash and the size of what is none."""
    try:
        if len(content) <= _LONGEST_TEXT:
            return {"value": content.decode("utf-8")}
    except UnicodeDecodeError:
        pass
    return {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
