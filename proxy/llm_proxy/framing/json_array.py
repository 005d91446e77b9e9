"""Splits a streamed JSON array into its elements.

A message ends with the bracket that closes an element, so that it is there as soon as its
element is; the comma before an element opens its message.  Elements that are no objects or
arrays, and whatever stands around the array, are not cut from their neighbours.

    [{"a":1}⏎,⏎{"b":2}⏎]
    └─ 1 ──┘└─ 2 ────┘└ 3
"""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import Final

_BEFORE: Final = re.compile(rb"[^ \t\r\n\xef\xbb\xbf]")
"""What begins the array, after white space and a byte order mark."""
_STRUCTURE: Final = re.compile(rb'["{}\[\]]')
_STRING: Final = re.compile(rb'["\\]')


class _ScannerState(Enum):
    """Where in the text the search stands."""

    BEFORE = auto()
    VALUES = auto()
    STRING = auto()
    OUTSIDE = auto()
    """Behind the array, or in a body that is none."""


class JsonArrayCodec:
    """Cuts an array into its elements of at most `limit` bytes; a longer one is cut there."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pending = bytearray()
        self._scanned_size = 0
        """Where the search goes on; behind the end when the next byte is an escaped one."""
        self._state = _ScannerState.BEFORE
        self._depth = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Take bytes as they arrive; give the messages that are complete."""
        self._pending += data
        done: list[bytes] = []
        start = 0
        for end in self._element_ends():
            done += self._limited_pieces(start, end)
            start = end
        return done + self._discard_before(start)

    def close(self) -> list[bytes]:
        """Say that nothing follows; give what is left."""
        rest = bytes(self._pending)
        self._pending.clear()
        self._scanned_size = self._depth = 0
        self._state = _ScannerState.BEFORE
        return [rest] if rest else []

    def _element_ends(self) -> list[int]:
        ends: list[int] = []
        while match := self._next_structural_byte():
            self._scanned_size = match.end()
            if self._consume_byte(match[0]):
                ends.append(match.end())
        self._scanned_size = max(self._scanned_size, len(self._pending))
        return ends

    def _next_structural_byte(self) -> re.Match[bytes] | None:
        """The next byte that means something where the search stands."""
        match self._state:
            case _ScannerState.BEFORE:
                return _BEFORE.search(self._pending, self._scanned_size)
            case _ScannerState.VALUES:
                return _STRUCTURE.search(self._pending, self._scanned_size)
            case _ScannerState.STRING:
                return _STRING.search(self._pending, self._scanned_size)
            case _ScannerState.OUTSIDE:
                return None

    def _consume_byte(self, byte: bytes) -> bool:
        """Go past a byte; whether it ends an element of the array."""
        if byte == b"\\":
            self._scanned_size += 1
        elif byte == b'"' and self._state is not _ScannerState.BEFORE:
            self._state = (
                _ScannerState.VALUES
                if self._state is _ScannerState.STRING
                else _ScannerState.STRING
            )
        elif self._state is _ScannerState.BEFORE:
            self._state = _ScannerState.VALUES if byte == b"[" else _ScannerState.OUTSIDE
            self._depth = 1
        else:
            self._depth += 1 if byte in b"[{" else -1
            if self._depth == 0:
                self._state = _ScannerState.OUTSIDE
            return byte in b"]}" and self._depth == 1
        return False

    def _discard_before(self, start: int) -> list[bytes]:
        full = (len(self._pending) - start) // self._limit * self._limit
        forced = self._limited_pieces(start, start + full)
        del self._pending[: start + full]
        self._scanned_size -= start + full
        return forced

    def _limited_pieces(self, start: int, end: int) -> list[bytes]:
        """What is pending between two offsets, in pieces of at most the limit."""
        pending, limit = self._pending, self._limit
        return [bytes(pending[at : min(at + limit, end)]) for at in range(start, end, limit)]
