"""A JSON array that comes over time: one message an element.

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


class _Place(Enum):
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
        self._searched = 0
        """Where the search goes on; behind the end when the next byte is an escaped one."""
        self._place = _Place.BEFORE
        self._depth = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Take bytes as they arrive; give the messages that are complete."""
        self._pending += data
        done: list[bytes] = []
        start = 0
        for end in self._ends():
            done += self._pieces(start, end)
            start = end
        return done + self._drop(start)

    def close(self) -> list[bytes]:
        """Say that nothing follows; give what is left."""
        rest = bytes(self._pending)
        self._pending.clear()
        self._searched = self._depth = 0
        self._place = _Place.BEFORE
        return [rest] if rest else []

    def _ends(self) -> list[int]:
        """Where elements end in what was not searched yet."""
        ends: list[int] = []
        while match := self._next():
            self._searched = match.end()
            if self._step(match[0]):
                ends.append(match.end())
        self._searched = max(self._searched, len(self._pending))
        return ends

    def _next(self) -> re.Match[bytes] | None:
        """The next byte that means something where the search stands."""
        match self._place:
            case _Place.BEFORE:
                return _BEFORE.search(self._pending, self._searched)
            case _Place.VALUES:
                return _STRUCTURE.search(self._pending, self._searched)
            case _Place.STRING:
                return _STRING.search(self._pending, self._searched)
            case _Place.OUTSIDE:
                return None

    def _step(self, byte: bytes) -> bool:
        """Go past a byte; whether it ends an element of the array."""
        if byte == b"\\":
            self._searched += 1
        elif byte == b'"' and self._place is not _Place.BEFORE:
            self._place = _Place.VALUES if self._place is _Place.STRING else _Place.STRING
        elif self._place is _Place.BEFORE:
            self._place = _Place.VALUES if byte == b"[" else _Place.OUTSIDE
            self._depth = 1
        else:
            self._depth += 1 if byte in b"[{" else -1
            if self._depth == 0:
                self._place = _Place.OUTSIDE
            return byte in b"]}" and self._depth == 1
        return False

    def _drop(self, start: int) -> list[bytes]:
        """Forget what was given out, and cut what has grown to the limit."""
        full = (len(self._pending) - start) // self._limit * self._limit
        forced = self._pieces(start, start + full)
        del self._pending[: start + full]
        self._searched -= start + full
        return forced

    def _pieces(self, start: int, end: int) -> list[bytes]:
        """What is pending between two offsets, in pieces of at most the limit."""
        pending, limit = self._pending, self._limit
        return [bytes(pending[at : min(at + limit, end)]) for at in range(start, end, limit)]
