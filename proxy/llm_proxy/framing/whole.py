"""Splitter for a body that is one message: a JSON document, a page, an image."""

from __future__ import annotations


class WholeBodySplitter:
    """Returns the whole body on `close`; one longer than `limit` bytes in pieces of that size."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pending = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Take bytes as they arrive; return the pieces that are full."""
        self._pending += data
        return take_pieces(self._pending, self._limit, self._limit + 1)

    def close(self) -> list[bytes]:
        """End the stream; return the remaining bytes."""
        return take_pieces(self._pending, self._limit, 1)


def take_pieces(pending: bytearray, limit: int, min_bytes: int) -> list[bytes]:
    """Remove pieces of `limit` bytes from the front while at least `min_bytes` are pending.

    The last piece may be shorter.
    """
    start = 0
    pieces: list[bytes] = []
    while len(pending) - start >= min_bytes:
        pieces.append(bytes(pending[start : start + limit]))
        start += limit
    del pending[:start]
    return pieces
