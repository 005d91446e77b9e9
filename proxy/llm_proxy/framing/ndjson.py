"""Newline-delimited JSON: one message a line, its LF included."""

from __future__ import annotations

import re
from typing import Final

import orjson

_BEGINNING: Final = re.compile(rb"\s*+(\{[^\n]*+)\n\s*+\{")
"""The first of several lines."""


class NdjsonCodec:
    """Cuts a stream into lines of at most `limit` bytes; a longer line is cut there."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pending = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Take bytes as they arrive; give the lines that are complete."""
        *ends, rest = data.split(b"\n")
        done: list[bytes] = []
        for end in ends:
            self._pending += end + b"\n"
            done += self._take_lines(1)
        self._pending += rest
        return done + self._take_lines(self._limit)

    def close(self) -> list[bytes]:
        """Say that nothing follows; give what is left."""
        return self._take_lines(1)

    def _take_lines(self, at_least: int) -> list[bytes]:
        """Messages off the front, as long as `at_least` bytes are there."""
        pending, limit = self._pending, self._limit
        start = 0
        done: list[bytes] = []
        while len(pending) - start >= at_least:
            done.append(bytes(pending[start : start + limit]))
            start += limit
        del pending[:start]
        return done


def begins_ndjson(start: bytes) -> bool:
    """Whether lines of JSON begin so: an object in the first line, and another behind it."""
    lines = _BEGINNING.match(start)
    if lines is None:
        return False
    try:
        orjson.loads(lines[1])
    except ValueError:
        return False
    return True
