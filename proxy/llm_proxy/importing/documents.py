"""Bytes of a file become a document, where they are one."""

from __future__ import annotations

import re
import zlib
from typing import Any, Final

import orjson

from llm_proxy.importing import yaml_values
from llm_proxy.importing.source import Opened, Unreadable

MAX_FILE: Final = 128 * 1024 * 1024
"""Bytes: a larger file is refused, also one that unpacks to more."""

MAX_VALUES: Final = 8_000_000
"""Commas of a JSON file: each may part two values, which take some 100 bytes of memory each."""

_GZIP: Final = b"\x1f\x8b"
_MEMBERS: Final = 100
"""Gzip files that may be joined to one."""
_JSON: Final = (b"{", b"[")
_YAML: Final = (
    b"interactions:",
    b"http_interactions:",
    b"version:",
    b"recorded_with:",
    b"request:",
)
"""How lines begin of YAML that could be a recording's."""
_FIRST_LINE: Final = re.compile(rb"---|[%#]|(?:- +)*[^\r\n:]{1,200}:(?:[ \t\r\n]|$)")
"""How YAML begins, and neither a trace nor a flow whose bodies may hold lines of YAML."""
_BOM: Final = b"\xef\xbb\xbf"


def opened(data: bytes) -> Opened:
    """What a file holds.  Raises `Unreadable`."""
    data = unpacked(data)
    text = data.removeprefix(_BOM).lstrip()
    if text.startswith(_JSON):
        if text.count(b",") > MAX_VALUES:
            raise Unreadable(f"it holds more than {MAX_VALUES:,} values: split it")
        return _json(data, text)
    if _FIRST_LINE.match(text) and is_yaml(text):
        return Opened(data, "yaml", yaml_values.read(data))
    return Opened(data, "bytes")


def unpacked(data: bytes) -> bytes:
    """A file without its gzip, where it has one.  Raises `Unreadable`."""
    if len(data) > MAX_FILE:
        raise Unreadable(f"it is larger than {MAX_FILE} bytes")
    if not data.startswith(_GZIP):
        return data
    members: list[bytes] = []
    room = MAX_FILE
    while data.startswith(_GZIP):  # files that were joined unpack to all of them
        plain, data = _member(data, room)
        members.append(plain)
        room -= len(plain)
        if len(members) > _MEMBERS:
            raise Unreadable(f"it is more than {_MEMBERS} gzip files in one")
    if data.strip(b"\0"):
        raise Unreadable("behind its gzip stands something else")
    return b"".join(members)


def _member(data: bytes, room: int) -> tuple[bytes, bytes]:
    """What the first gzip of a file holds, and what stands behind it.  Raises `Unreadable`."""
    inflate = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        plain = inflate.decompress(data, room + 1)
    except zlib.error as error:
        raise Unreadable(f"its gzip is broken: {error}") from None
    if len(plain) > room:
        raise Unreadable(f"it unpacks to more than {MAX_FILE} bytes")
    if not inflate.eof:
        raise Unreadable("its gzip is cut short")
    return plain, inflate.unused_data


def is_yaml(text: bytes) -> bool:
    """Whether a text may be a recording in YAML: one of its first lines has such a name."""
    return any(line.lstrip(b" -").startswith(_YAML) for line in text[:4096].splitlines())


def _json(data: bytes, text: bytes) -> Opened:
    try:
        return Opened(data, "json", orjson.loads(text))
    except ValueError as error:
        lines = _lines(text)
        if lines is not None:
            return Opened(data, "jsonl", lines)
        if is_yaml(text):
            return Opened(data, "yaml", yaml_values.read(data))
        raise Unreadable(f"it is no valid JSON: {error}") from None


def _lines(text: bytes) -> list[Any] | None:
    """The documents of a text that has one a line; None where it has not."""
    first, more, _ = text.partition(b"\n")
    if not more:
        return None
    try:
        orjson.loads(first)
    except ValueError:
        return None
    documents: list[Any] = []
    for number, line in enumerate(text.split(b"\n"), 1):
        if line.strip():
            try:
                documents.append(orjson.loads(line))
            except ValueError as error:
                raise Unreadable(f"line {number}: it is no valid JSON: {error}") from None
    return documents
