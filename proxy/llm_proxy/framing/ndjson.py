"""Newline-delimited JSON: one message per line, its LF included."""

from __future__ import annotations

import re
from typing import Final

import orjson

from llm_proxy.framing.whole import take_pieces

_STREAM_START: Final = re.compile(rb"\s*+(\{[^\n]*+)\n\s*+\{")
"""The first of several lines that begin with `{`."""


class NdjsonSplitter:
    """Splits a stream into lines; one longer than `limit` bytes is split there."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pending = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Take bytes as they arrive; return the lines that are complete."""
        *ends, rest = data.split(b"\n")
        lines: list[bytes] = []
        for end in ends:
            self._pending += end + b"\n"
            lines += take_pieces(self._pending, self._limit, 1)
        self._pending += rest
        return lines + take_pieces(self._pending, self._limit, self._limit)

    def close(self) -> list[bytes]:
        """End the stream; return the remaining messages."""
        return take_pieces(self._pending, self._limit, 1)


def begins_ndjson(start: bytes) -> bool:
    """Whether a body begins as NDJSON: an object in the first line, followed by another."""
    match = _STREAM_START.match(start)
    if match is None:
        return False
    try:
        orjson.loads(match[1])
    except ValueError:
        return False
    return True
