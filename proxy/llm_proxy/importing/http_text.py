"""Parses HTTP/1.1 messages stored as text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from llm_proxy.exchange import Headers, header_value
from llm_proxy.importing import fields
from llm_proxy.importing.source import NotImportable

_BLANK: Final = re.compile(rb"\r?\n\r?\n")
_LINE_END: Final = re.compile(r"\r?\n")
"""Of HTTP: `str.splitlines` would take bytes of UTF-8 for ends, too."""
_CHUNK: Final = re.compile(rb"([0-9A-Fa-f]{1,12})[^\r\n]{0,1000}\r\n")

_TRAILERS: Final = re.compile(rb"(?:[^\r\n:]{1,1000}:[^\r\n]{0,10000}\r\n)*(?:\r\n)?")


@dataclass(frozen=True, slots=True)
class HttpMessageText:
    """A message: the three words of its first line, its headers, its body without chunks."""

    start_line: tuple[str, str, str]
    headers: Headers
    body: bytes


def parse_message(data: bytes, label: str) -> HttpMessageText:
    """A message.  Raises `NotImportable`; `what` names it."""
    blank = _BLANK.search(data)
    if blank is None:
        raise NotImportable(f"its {label} has no end of its head")
    first, *lines = _LINE_END.split(data[: blank.start()].decode("latin-1"))
    words = first.split(" ", 2)
    if len(words) < 2:
        raise NotImportable(f"its {label} begins with no line of HTTP")
    found = fields.parse_headers([list(line.partition(":")[::2]) for line in lines])
    body = data[blank.end() :]
    if (header_value(found, "transfer-encoding") or "").lower().endswith("chunked"):
        body = decode_chunks(body, label)
    return HttpMessageText((words[0], words[1], words[2] if len(words) > 2 else ""), found, body)


def decode_chunks(data: bytes, label: str) -> bytes:
    """A body without its chunks.  Raises `NotImportable`; `what` names the message."""
    pieces: list[bytes] = []
    at = 0
    while True:
        size = _CHUNK.match(data, at)
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
        at = end + 2
