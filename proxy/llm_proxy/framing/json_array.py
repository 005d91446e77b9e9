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
        messages: list[bytes] = []
        start = 0
        for end in self._element_ends():
            messages += self._limited_pieces(start, end)
            start = end
        return messages + self._trim_pending(start)

    def close(self) -> list[bytes]:
        """End the stream; return the remaining messages."""
        rest = bytes(self._pending)
        self._pending.clear()
        self._scan_offset = self._depth = 0
        self._state = _BEFORE_ARRAY
        return [rest] if rest else []

    def _element_ends(self) -> list[int]:
        ends: list[int] = []
        while match := self._state.match(self._pending, self._scan_offset):
            self._scan_offset = match.end()
            if self._consume_byte(match[1]):
                ends.append(match.end())
        self._scan_offset = max(self._scan_offset, len(self._pending))
        return ends

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

    def _trim_pending(self, start: int) -> list[bytes]:
        full_bytes = (len(self._pending) - start) // self._limit * self._limit
        oversized_pieces = self._limited_pieces(start, start + full_bytes)
        del self._pending[: start + full_bytes]
        self._scan_offset -= start + full_bytes
        return oversized_pieces

    def _limited_pieces(self, start: int, end: int) -> list[bytes]:
        """The pending bytes between two offsets, in pieces of at most the limit."""
        pending, limit = self._pending, self._limit
        return [bytes(pending[at : min(at + limit, end)]) for at in range(start, end, limit)]
