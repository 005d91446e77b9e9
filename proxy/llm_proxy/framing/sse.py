"""Server-sent events: splitting at blank lines, parsing and encoding.

The rules of the WHATWG HTML standard, section 9.2, over bytes: a line ends in CR, LF or CRLF,
and in nothing else (decoders built on `str.splitlines` split JSON at U+2028).  A message runs
up to and including the blank line that ends it; further blank lines open the message that
follows; what stands after the last blank line is a message of its own.

    data: {"a":1}⏎⏎⏎data: [DONE]⏎⏎data: {"a"
    └── message 1 ─┘└─ message 2 ─┘└ message 3
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

CONTENT_TYPE: Final = "text/event-stream"
DONE: Final = b"[DONE]"
"""What the last event of many streams says."""
KEEP_ALIVE: Final = b": keep-alive\n\n"
"""A comment, which clients pass over: what servers send lest somebody take silence for the end."""

_LINE_END: Final = re.compile(rb"\r\n?|\n")
_BOM: Final = b"\xef\xbb\xbf"
_BEGINNING: Final = re.compile(
    rb"(?:\xef\xbb\xbf)?[\r\n]*+(?:(?:|event|id|retry):[^\r\n]*+[\r\n]++)*data:"
)
"""Lines of a stream up to its first `data`; no stream takes long."""


class SseCodec:
    """Cuts a stream of server-sent events into messages of at most `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pending = bytearray()
        self._scanned_size = 0
        """Where the search for line ends goes on; everything before it was looked at."""
        self._line_start = 0
        """Where the open line began; negative when its beginning was cut off already."""
        self._has_line = False
        """Whether the open message holds a line that is not blank."""

    def feed(self, data: bytes) -> list[bytes]:
        """Take bytes as they arrive; give the messages that are complete."""
        self._pending += data
        pending = self._pending
        done: list[bytes] = []
        start = 0
        for match in _LINE_END.finditer(pending, self._scanned_size):
            end = match.end()
            if end == len(pending) and pending[-1:] == b"\r":
                break  # The next byte may be the LF that belongs to it.
            if match.start() > self._line_start:
                self._has_line = True
            elif self._has_line:
                done += [
                    bytes(pending[at : min(at + self._limit, end)])
                    for at in range(start, end, self._limit)
                ]
                start, self._has_line = end, False
            self._line_start = end
        return done + self._discard_before(start)

    def close(self) -> list[bytes]:
        """Say that nothing follows; give what is left."""
        rest = bytes(self._pending)
        self._pending.clear()
        self._scanned_size = self._line_start = 0
        self._has_line = False
        return [rest] if rest else []

    def _discard_before(self, start: int) -> list[bytes]:
        pending = self._pending
        settled = len(pending) - (1 if pending[-1:] == b"\r" else 0)
        forced: list[bytes] = []
        while settled - start >= self._limit:
            forced.append(bytes(pending[start : start + self._limit]))
            start += self._limit
        del pending[:start]
        self._line_start -= start
        self._scanned_size = settled - start
        return forced


@dataclass(frozen=True, slots=True)
class SseEvent:
    """One event, read as a browser would."""

    encode_event: str
    """The event's type, empty where the stream names none."""
    data: bytes | None
    """The `data` lines joined by LF; None where there is no such line (a comment, say)."""


def parse_event(message: bytes) -> SseEvent:
    """Read one message of `SseCodec`; ids, retry times and comments are left aside."""
    event = ""
    data: list[bytes] = []
    for line in _LINE_END.split(message.removeprefix(_BOM)):
        name, colon, value = line.partition(b":")
        if not name and colon:
            continue  # a comment
        value = value.removeprefix(b" ")
        if name == b"data":
            data.append(value)
        elif name == b"event":
            event = value.decode("utf-8", "replace")
    return SseEvent(event, b"\n".join(data) if data else None)


def begins_sse(start: bytes) -> bool:
    """Whether a stream of server-sent events begins so, up to the name of its first `data` line."""
    return _BEGINNING.match(start) is not None


def is_done(message: bytes) -> bool:
    """Whether a message is the `[DONE]` that ends a stream."""
    return DONE in message and (parse_event(message).data or b"").strip() == DONE


def encode_event(data: bytes, name: str = "", line_end: bytes = b"\n") -> bytes:
    """One event as a message: `data` is one line, `name` its type where the stream names any."""
    named = b"event: " + name.encode() + line_end if name else b""
    return named + b"data: " + data + line_end * 2
