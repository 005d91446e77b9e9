"""Parses a file, which may be gzipped, as JSON, JSON Lines or YAML."""

from __future__ import annotations

import re
import zlib
from typing import Any, Final

import orjson

from llm_proxy.importing import yaml_parser
from llm_proxy.importing.source import ParsedFile, UnreadableFile

MAX_FILE_BYTES: Final = 128 * 1024 * 1024
"""Larger files are refused, also those that decompress to more."""

MAX_VALUES: Final = 8_000_000
"""Commas of a JSON file: each may separate two values of some 100 bytes of memory."""

_GZIP_MAGIC: Final = b"\x1f\x8b"
_MAX_GZIP_MEMBERS: Final = 100
"""Limit of concatenated gzip members in one file."""
_JSON_STARTS: Final = (b"{", b"[")
_YAML_LINE_STARTS: Final = (
    b"interactions:",
    b"http_interactions:",
    b"version:",
    b"recorded_with:",
    b"request:",
)
"""Starts of lines in YAML that may be a recording."""
_YAML_START: Final = re.compile(rb"---|[%#]|(?:- +)*[^\r\n:]{1,200}:(?:[ \t\r\n]|$)")
"""Starts of YAML, but not of a trace or a flow whose bodies may hold lines of YAML."""
_BOM: Final = b"\xef\xbb\xbf"


def parse_file_content(data: bytes) -> ParsedFile:
    """Decompresses and parses a file.  Raises `UnreadableFile`."""
    data = gunzip(data)
    text = data.removeprefix(_BOM).lstrip()
    if text.startswith(_JSON_STARTS):
        if text.count(b",") > MAX_VALUES:
            raise UnreadableFile(f"it holds more than {MAX_VALUES:,} values: split it")
        return _parse_json(data, text)
    if _YAML_START.match(text) and may_be_yaml_recording(text):
        return ParsedFile(data, "yaml", yaml_parser.parse_yaml(data))
    return ParsedFile(data, "bytes")


def gunzip(data: bytes) -> bytes:
    """The bytes decompressed if they are gzip.  Raises `UnreadableFile`."""
    if len(data) > MAX_FILE_BYTES:
        raise UnreadableFile(f"it is larger than {MAX_FILE_BYTES} bytes")
    if not data.startswith(_GZIP_MAGIC):
        return data
    members: list[bytes] = []
    remaining_bytes = MAX_FILE_BYTES
    while data.startswith(_GZIP_MAGIC):  # concatenated members are one file
        plain, data = _gunzip_member(data, remaining_bytes)
        members.append(plain)
        remaining_bytes -= len(plain)
        if len(members) > _MAX_GZIP_MEMBERS:
            raise UnreadableFile(f"it is more than {_MAX_GZIP_MEMBERS} gzip files in one")
    if data.strip(b"\0"):
        raise UnreadableFile("behind its gzip stands something else")
    return b"".join(members)


def _gunzip_member(data: bytes, max_bytes: int) -> tuple[bytes, bytes]:
    """The content of the first gzip member, and the bytes after it.  Raises `UnreadableFile`."""
    decompressor = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        plain = decompressor.decompress(data, max_bytes + 1)
    except zlib.error as error:
        raise UnreadableFile(f"its gzip is broken: {error}") from None
    if len(plain) > max_bytes:
        raise UnreadableFile(f"it unpacks to more than {MAX_FILE_BYTES} bytes")
    if not decompressor.eof:
        raise UnreadableFile("its gzip is cut short")
    return plain, decompressor.unused_data


def may_be_yaml_recording(text: bytes) -> bool:
    """Whether one of the first lines (in 4096 bytes) starts as in a YAML recording."""
    return any(
        line.lstrip(b" -").startswith(_YAML_LINE_STARTS) for line in text[:4096].splitlines()
    )


def _parse_json(data: bytes, text: bytes) -> ParsedFile:
    try:
        return ParsedFile(data, "json", orjson.loads(text))
    except ValueError as error:
        lines = _parse_json_lines(text)
        if lines is not None:
            return ParsedFile(data, "jsonl", lines)
        if may_be_yaml_recording(text):
            return ParsedFile(data, "yaml", yaml_parser.parse_yaml(data))
        raise UnreadableFile(f"it is no valid JSON: {error}") from None


def _parse_json_lines(text: bytes) -> list[Any] | None:
    """The documents of JSON Lines; None where the first line is no document.

    Raises `UnreadableFile` where a later line is none.
    """
    first_line, line_end, _ = text.partition(b"\n")
    if not line_end:
        return None
    try:
        orjson.loads(first_line)
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
