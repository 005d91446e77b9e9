"""Parses typed netstrings (mitmproxy flows): `5:hello,` and `2:12#`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from llm_proxy.importing.source import UnreadableFile

MAX_DEPTH: Final = 50
_SIZE: Final = re.compile(rb"(0|[1-9][0-9]{0,11}):")


def parse_values(data: bytes) -> Iterator[Any]:
    """The values of a file, one after the other.  Raises `Unreadable`."""
    at = 0
    while at < len(data):
        value, at = _parse_value(data, at, len(data), 0)
        yield value


def begins_tnetstring(data: bytes) -> bool:
    """Whether a file begins with an object, whole or cut short: its size, and in it a name."""
    size = _SIZE.match(data)
    name = size and _SIZE.match(data, size.end())
    if size is None or name is None:
        return False
    end, kind = size.end() + int(size[1]), data[name.end() + int(name[1]) :][:1]
    return kind in (b";", b",") and data[end : end + 1] in (b"}", b"")


def _parse_value(data: bytes, at: int, end: int, depth: int) -> tuple[Any, int]:
    """The value that begins here and ends before `end`, and where it ends."""
    size = _SIZE.match(data, at, end)
    if size is None:
        raise UnreadableFile(f"byte {at}: a size is missing")
    begin = size.end()
    stop = begin + int(size[1])
    if stop >= end:
        raise UnreadableFile(f"byte {at}: it is cut short")
    kind = data[stop : stop + 1]
    if kind in b"}]" and depth == MAX_DEPTH:
        raise UnreadableFile(
            f"byte {at}: values stand within each other more than {MAX_DEPTH} deep"
        )
    if kind == b"}":
        return _parse_object(data, begin, stop, depth + 1), stop + 1
    if kind == b"]":
        return _parse_list(data, begin, stop, depth + 1), stop + 1
    return _parse_scalar(at, kind, data[begin:stop]), stop + 1


def _parse_list(data: bytes, at: int, end: int, depth: int) -> list[Any]:
    items: list[Any] = []
    while at < end:
        item, at = _parse_value(data, at, end, depth)
        items.append(item)
    return items


def _parse_object(data: bytes, at: int, end: int, depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    while at < end:
        name, after = _parse_value(data, at, end, depth)
        if not isinstance(name, str | bytes):
            raise UnreadableFile(f"byte {at}: a name must be text")
        key = name if isinstance(name, str) else name.decode("utf-8", "replace")
        found[key], at = _parse_value(data, after, end, depth)
    return found


def _parse_scalar(at: int, kind: bytes, text: bytes) -> Any:
    with suppress(ValueError):  # no text, or no number
        match kind:
            case b",":
                return text
            case b";":
                return text.decode("utf-8")
            case b"#":
                return int(text[:30])
            case b"^":
                return float(text[:60])
            case b"!" if text in (b"true", b"false"):
                return text == b"true"
            case b"~" if not text:
                return None
            case _:  # of no kind, as below
                pass
    raise UnreadableFile(f"byte {at}: it holds no value of a kind that is known")
