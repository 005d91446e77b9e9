"""Parses a file into a document, if it is one."""

from __future__ import annotations

import re
import zlib
from typing import Any, Final

import orjson

from llm_proxy.importing import yaml_parser
from llm_proxy.importing.source import OpenedFile, UnreadableFile

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


def open_document(data: bytes) -> OpenedFile:
    """What a file holds.  Raises `Unreadable`."""
    data = gunzip(data)
    text = data.removeprefix(_BOM).lstrip()
    if text.startswith(_JSON):
        if text.count(b",") > MAX_VALUES:
            raise UnreadableFile(f"it holds more than {MAX_VALUES:,} values: split it")
        return _parse_json(data, text)
    if _FIRST_LINE.match(text) and is_yaml(text):
        return OpenedFile(data, "yaml", yaml_parser.read_document(data))
    return OpenedFile(data, "bytes")


def gunzip(data: bytes) -> bytes:
    """A file without its gzip, where it has one.  Raises `Unreadable`."""
    if len(data) > MAX_FILE:
        raise UnreadableFile(f"it is larger than {MAX_FILE} bytes")
    if not data.startswith(_GZIP):
        return data
    members: list[bytes] = []
    room = MAX_FILE
    while data.startswith(_GZIP):  # files that were joined unpack to all of them
        plain, data = _gunzip_member(data, room)
        members.append(plain)
        room -= len(plain)
        if len(members) > _MEMBERS:
            raise UnreadableFile(f"it is more than {_MEMBERS} gzip files in one")
    if data.strip(b"\0"):
        raise UnreadableFile("behind its gzip stands something else")
    return b"".join(members)


def _gunzip_member(data: bytes, room: int) -> tuple[bytes, bytes]:
    """What the first gzip of a file holds, and what stands behind it.  Raises `Unreadable`."""
    inflate = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        plain = inflate.decompress(data, room + 1)
    except zlib.error as error:
        raise UnreadableFile(f"its gzip is broken: {error}") from None
    if len(plain) > room:
        raise UnreadableFile(f"it unpacks to more than {MAX_FILE} bytes")
    if not inflate.eof:
        raise UnreadableFile("its gzip is cut short")
    return plain, inflate.unused_data


def is_yaml(text: bytes) -> bool:
    """Whether a text may be a recording in YAML: one of its first lines has such a name."""
    return any(line.lstrip(b" -").startswith(_YAML) for line in text[:4096].splitlines())


def _parse_json(data: bytes, text: bytes) -> OpenedFile:
    try:
        return OpenedFile(data, "json", orjson.loads(text))
    except ValueError as error:
        lines = _parse_json_lines(text)
        if lines is not None:
            return OpenedFile(data, "jsonl", lines)
        if is_yaml(text):
            return OpenedFile(data, "yaml", yaml_parser.read_document(data))
        raise UnreadableFile(f"it is no valid JSON: {error}") from None


def _parse_json_lines(text: bytes) -> list[Any] | None:
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
                raise UnreadableFile(f"line {number}: it is no valid JSON: {error}") from None
    return documents
