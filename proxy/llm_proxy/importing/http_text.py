"""HTTP/1.1 messages that stand in a file in full."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from llm_proxy.exchange import Headers, header
from llm_proxy.importing import fields
from llm_proxy.importing.source import Unfit

_BLANK: Final = re.compile(rb"\r?\n\r?\n")
_LINE_END: Final = re.compile(r"\r?\n")
"""Of HTTP: `str.splitlines` would take bytes of UTF-8 for ends, too."""
_CHUNK: Final = re.compile(rb"([0-9A-Fa-f]{1,12})[^\r\n]{0,1000}\r\n")

_TRAILERS: Final = re.compile(rb"(?:[^\r\n:]{1,1000}:[^\r\n]{0,10000}\r\n)*(?:\r\n)?")


@dataclass(frozen=True, slots=True)
class Message:
    """A message: the three words of its first line, its headers, its body without chunks."""

    first: tuple[str, str, str]
    headers: Headers
    body: bytes


def read(data: bytes, what: str) -> Message:
    """A message.  Raises `Unfit`; `what` names it."""
    blank = _BLANK.search(data)
    if blank is None:
        raise Unfit(f"its {what} has no end of its head")
    first, *lines = _LINE_END.split(data[: blank.start()].decode("latin-1"))
    words = first.split(" ", 2)
    if len(words) < 2:
        raise Unfit(f"its {what} begins with no line of HTTP")
    found = fields.headers([list(line.partition(":")[::2]) for line in lines])
    body = data[blank.end() :]
    if (header(found, "transfer-encoding") or "").lower().endswith("chunked"):
        body = unchunked(body, what)
    return Message((words[0], words[1], words[2] if len(words) > 2 else ""), found, body)


def unchunked(data: bytes, what: str) -> bytes:
    """A body without its chunks.  Raises `Unfit`; `what` names the message."""
    pieces: list[bytes] = []
    at = 0
    while True:
        size = _CHUNK.match(data, at)
        if size is None:
            raise Unfit(f"its {what} is cut short: a chunk is missing")
        length = int(size[1], 16)
        if length == 0:
            if _TRAILERS.fullmatch(data, size.end()) is None:
                raise Unfit(f"behind the last chunk of its {what} stands something else")
            return b"".join(pieces)
        end = size.end() + length
        if data[end : end + 2] != b"\r\n":
            raise Unfit(f"its {what} is cut short within a chunk")
        pieces.append(data[size.end() : end])
        at = end + 2
