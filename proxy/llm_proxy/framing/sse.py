"""Server-sent events: splitting at blank lines, parsing and encoding.

The rules of the WHATWG HTML standard, section 9.2, on bytes: a line ends in CR, LF or CRLF,
and in nothing else (decoders built on `str.splitlines` split JSON at U+2028).  A message runs
up to and including the blank line that ends it; further blank lines begin the next message;
bytes after the last blank line are a separate message.

    data: {"a":1}⏎⏎⏎data: [DONE]⏎⏎data: {"a"
    └── message 1 ─┘└─ message 2 ─┘└ message 3
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from llm_proxy.framing.whole import take_pieces

CONTENT_TYPE: Final = "text/event-stream"
DONE_DATA: Final = b"[DONE]"
"""The data of the last event of many streams."""
KEEP_ALIVE: Final = b": keep-alive\n\n"
"""A comment, which clients ignore: servers send it to prevent idle timeouts."""

_LINE_END: Final = re.compile(rb"\r\n?|\n")
_PLAIN_EVENT: Final = re.compile(rb"(?:event: ([^\r\n]*)\r?\n)?data: ([^\r\n]*)\r?\n\r?\n")
"""An event as most servers write it."""
_BOM: Final = b"\xef\xbb\xbf"
_STREAM_START: Final = re.compile(
    rb"(?:\xef\xbb\xbf)?[\r\n]*+(?:(?:|event|id|retry):[^\r\n]*+[\r\n]++)*data:"
)
"""The lines of a stream up to its first `data`; matches in linear time."""


class SseSplitter:
    """Splits a stream of server-sent events into messages of at most `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pending = bytearray()
        self._scan_offset = 0
        """The offset in `_pending` up to which line ends were searched."""
        self._line_start = 0
        """The start of the current line; negative if its beginning was returned already."""
        self._has_nonblank_line = False
        """Whether the current message has a line that is not blank."""

    def feed(self, data: bytes) -> list[bytes]:
        """Take bytes as they arrive; return the messages that are complete."""
        self._pending += data
        pending = self._pending
        messages: list[bytes] = []
        start = 0
        for match in _LINE_END.finditer(pending, self._scan_offset):
            end = match.end()
            if end == len(pending) and pending[-1:] == b"\r":
                break  # The next byte may be the LF that belongs to it.
            if match.start() > self._line_start:
                self._has_nonblank_line = True
            elif self._has_nonblank_line:
                messages += take_pieces(pending[start:end], self._limit, 1)
                start, self._has_nonblank_line = end, False
            self._line_start = end
        return messages + self._trim_pending(start)

    def close(self) -> list[bytes]:
        """End the stream; return the remaining messages."""
        self._scan_offset = self._line_start = 0
        self._has_nonblank_line = False
        return take_pieces(self._pending, self._limit, 1)

    def _trim_pending(self, start: int) -> list[bytes]:
        pending = self._pending
        self._line_start -= len(pending)
        del pending[:start]
        unscanned_bytes = 1 if pending[-1:] == b"\r" else 0
        oversized_pieces = take_pieces(pending, self._limit, self._limit + unscanned_bytes)
        self._line_start += len(pending)
        self._scan_offset = len(pending) - unscanned_bytes
        return oversized_pieces


@dataclass(frozen=True, slots=True)
class SseEvent:
    """One event, parsed as a browser would."""

    event_type: str
    """The event's type; empty if there is no `event` line."""
    data: bytes | None
    """The `data` lines joined by LF; None if there is no such line (in a comment, for example)."""


def parse_event(message: bytes) -> SseEvent:
    """Parse one message of `SseSplitter`; ids, retry times and comments are ignored."""
    if match := _PLAIN_EVENT.fullmatch(message):
        return SseEvent((match[1] or b"").decode("utf-8", "replace"), match[2])
    event_type = ""
    data: list[bytes] = []
    for line in _LINE_END.split(message.removeprefix(_BOM)):
        name, colon, value = line.partition(b":")
        if not name and colon:
            continue  # a comment
        value = value.removeprefix(b" ")
        if name == b"data":
            data.append(value)
        elif name == b"event":
            event_type = value.decode("utf-8", "replace")
    return SseEvent(event_type, b"\n".join(data) if data else None)


def begins_sse(start: bytes) -> bool:
    """Whether a body begins as a stream of server-sent events, up to its first `data:`."""
    return _STREAM_START.match(start) is not None


def is_done_message(message: bytes) -> bool:
    """Whether a message is the `[DONE]` that ends a stream."""
    return DONE_DATA in message and (parse_event(message).data or b"").strip() == DONE_DATA


def encode_event(data: bytes, event_type: str = "", line_end: bytes = b"\n") -> bytes:
    """Encode one event; `data` must be one line, and an empty event type is left out."""
    event_line = b"event: " + event_type.encode() + line_end if event_type else b""
    return event_line + b"data: " + data + line_end * 2
