"""Splits a streamed JSON array into its elements.

A message ends with the bracket that closes an element, so that it is complete as soon as its
element is; the comma before an element begins its message.  Elements that are no objects or
arrays, and bytes around the array, are not split from their neighbours.

    [{"a":1}⏎,⏎{"b":2}⏎]
    └─ 1 ──┘└─ 2 ────┘└ 3
"""

from __future__ import annotations

import re
from typing import Final

from llm_proxy.framing.whole import take_pieces

# The states of the scanner.  Each is a pattern of all up to the next significant byte, its group.
# One match skips at most 100 strings or escapes: they take memory until it ends.
_BEFORE_ARRAY: Final = re.compile(rb"[ \t\r\n\xef\xbb\xbf]*+(.)", re.DOTALL)
"""Before the first byte that is neither white space nor part of a byte order mark."""
_IN_ARRAY: Final = re.compile(rb'[^"{}\[\]]*+(?:"[^"\\]*+"[^"{}\[\]]*+){0,100}(["{}\[\]])')
_IN_STRING: Final = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+){0,100}(["\\])', re.DOTALL)
_OUTSIDE: Final = re.compile(rb"(?!)")
"""After the array, or in a body that is no array."""


class JsonArraySplitter:
    """Splits an array into its elements; one longer than `limit` bytes is split there."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pending = bytearray()
        self._scan_offset = 0
        """Where scanning continues; past the end if the next byte is an escaped one."""
        self._state = _BEFORE_ARRAY
        self._depth = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Take bytes as they arrive; return the messages that are complete."""
        self._pending += data
        pending, limit = self._pending, self._limit
        messages: list[bytes] = []
        start = 0
        while match := self._state.match(pending, self._scan_offset):
            self._scan_offset = end = match.end()
            if self._consume_byte(match[1]):
                messages += take_pieces(pending[start:end], limit, 1)
                start = end
        escaped_bytes = max(self._scan_offset - len(pending), 0)
        del pending[:start]
        messages += take_pieces(pending, limit, limit)
        self._scan_offset = len(pending) + escaped_bytes
        return messages

    def close(self) -> list[bytes]:
        """End the stream; return the remaining messages."""
        self._scan_offset = self._depth = 0
        self._state = _BEFORE_ARRAY
        return take_pieces(self._pending, self._limit, 1)

    def _consume_byte(self, byte: bytes) -> bool:
        """Update the state by a byte; return whether it ends an element of the array."""
        if self._state is _IN_ARRAY and byte != b'"':
            self._depth += 1 if byte in b"[{" else -1
            if self._depth == 0:
                self._state = _OUTSIDE
            return self._depth == 1 and byte in b"]}"
        if byte == b"\\":
            self._scan_offset += 1
        elif self._state is _BEFORE_ARRAY:
            self._state = _IN_ARRAY if byte == b"[" else _OUTSIDE
            self._depth = 1
        elif self._state is _IN_ARRAY:
            self._state = _IN_STRING
        else:
            self._state = _IN_ARRAY
        return False
