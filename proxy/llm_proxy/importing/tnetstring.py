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
    """The values of a file in order.  Raises `UnreadableFile`."""
    offset = 0
    while offset < len(data):
        value, offset = _parse_value(data, offset, len(data), 0)
        yield value


def starts_with_tnetstring(data: bytes) -> bool:
    """Whether a file starts with an object, maybe cut short: its size, then a member name."""
    size = _SIZE.match(data)
    name = size and _SIZE.match(data, size.end())
    if size is None or name is None:
        return False
    end, type_tag = size.end() + int(size[1]), data[name.end() + int(name[1]) :][:1]
    return type_tag in (b";", b",") and data[end : end + 1] in (b"}", b"")


def _parse_value(data: bytes, offset: int, end: int, depth: int) -> tuple[Any, int]:
    """The value at `offset`, which ends before `end`, and the offset after it."""
    size = _SIZE.match(data, offset, end)
    if size is None:
        raise UnreadableFile(f"byte {offset}: a size is missing")
    payload_start = size.end()
    payload_end = payload_start + int(size[1])
    if payload_end >= end:
        raise UnreadableFile(f"byte {offset}: it is cut short")
    type_tag = data[payload_end : payload_end + 1]
    if type_tag in b"}]" and depth == MAX_DEPTH:
        raise UnreadableFile(
            f"byte {offset}: values stand within each other more than {MAX_DEPTH} deep"
        )
    if type_tag == b"}":
        return _parse_object(data, payload_start, payload_end, depth + 1), payload_end + 1
    if type_tag == b"]":
        return _parse_list(data, payload_start, payload_end, depth + 1), payload_end + 1
    return _parse_scalar(offset, type_tag, data[payload_start:payload_end]), payload_end + 1


def _parse_list(data: bytes, offset: int, end: int, depth: int) -> list[Any]:
    items: list[Any] = []
    while offset < end:
        item, offset = _parse_value(data, offset, end, depth)
        items.append(item)
    return items


def _parse_object(data: bytes, offset: int, end: int, depth: int) -> dict[str, Any]:
    members: dict[str, Any] = {}
    while offset < end:
        name, value_offset = _parse_value(data, offset, end, depth)
        if not isinstance(name, str | bytes):
            raise UnreadableFile(f"byte {offset}: a name must be text")
        key = name if isinstance(name, str) else name.decode("utf-8", "replace")
        members[key], offset = _parse_value(data, value_offset, end, depth)
    return members


def _parse_scalar(offset: int, type_tag: bytes, payload: bytes) -> Any:
    with suppress(ValueError):  # invalid UTF-8 or number
        match type_tag:
            case b",":
                return payload
            case b";":
                return payload.decode("utf-8")
            case b"#":
                return int(payload[:30])
            case b"^":
                return float(payload[:60])
            case b"!" if payload in (b"true", b"false"):
                return payload == b"true"
            case b"~" if not payload:
                return None
            case _:  # unknown type: raised below
                pass
    raise UnreadableFile(f"byte {offset}: it holds no value of a kind that is known")
