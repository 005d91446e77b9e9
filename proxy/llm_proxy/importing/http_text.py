"""Parses HTTP/1.1 messages stored as text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from llm_proxy.exchange import Headers, header_value
from llm_proxy.importing import fields
from llm_proxy.importing.source import NotImportable

_HEAD_END: Final = re.compile(rb"\r?\n\r?\n")
_LINE_END: Final = re.compile(r"\r?\n")
"""HTTP's line end: `str.splitlines` would also split at some UTF-8 bytes in Latin-1."""
_CHUNK_SIZE_LINE: Final = re.compile(rb"([0-9A-Fa-f]{1,12})[^\r\n]{0,1000}\r\n")

_TRAILERS: Final = re.compile(rb"(?:[^\r\n:]{1,1000}:[^\r\n]{0,10000}\r\n)*(?:\r\n)?")


@dataclass(frozen=True, slots=True)
class HttpMessage:
    """A message: the three words of its start line, its headers, its body without chunk framing."""

    start_line_parts: tuple[str, str, str]
    headers: Headers
    body: bytes


def parse_message(data: bytes, label: str) -> HttpMessage:
    """Parses a message.  Raises `NotImportable`; `label` names the message."""
    head_end = _HEAD_END.search(data)
    if head_end is None:
        raise NotImportable(f"its {label} has no end of its head")
    start_line, *lines = _LINE_END.split(data[: head_end.start()].decode("latin-1"))
    start_words = start_line.split(" ", 2)
    if len(start_words) < 2:
        raise NotImportable(f"its {label} begins with no line of HTTP")
    headers = fields.parse_headers([list(line.partition(":")[::2]) for line in lines])
    body = data[head_end.end() :]
    if (header_value(headers, "transfer-encoding") or "").lower().endswith("chunked"):
        body = decode_chunked_body(body, label)
    return HttpMessage(
        (start_words[0], start_words[1], start_words[2] if len(start_words) > 2 else ""),
        headers,
        body,
    )


def decode_chunked_body(data: bytes, label: str) -> bytes:
    """A body without chunk framing.  Raises `NotImportable`; `label` names the message."""
    pieces: list[bytes] = []
    offset = 0
    while True:
        size = _CHUNK_SIZE_LINE.match(data, offset)
        if size is None:
            raise NotImportable(f"its {label} is cut short: a chunk is missing")
        length = int(size[1], 16)
        if length == 0:
            if _TRAILERS.fullmatch(data, size.end()) is None:
                raise NotImportable(f"behind the last chunk of its {label} stands something else")
            return b"".join(pieces)
        end = size.end() + length
        if data[end : end + 2] != b"\r\n":
            raise NotImportable(f"its {label} is cut short within a chunk")
        pieces.append(data[size.end() : end])
        offset = end + 2
