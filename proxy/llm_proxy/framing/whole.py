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
        pending, limit = self._pending, self._limit
        full_pieces = [
            bytes(pending[at : at + limit]) for at in range(0, len(pending) - limit, limit)
        ]
        del pending[: len(full_pieces) * limit]
        return full_pieces

    def close(self) -> list[bytes]:
        """End the stream; return the remaining bytes."""
        rest = bytes(self._pending)
        self._pending.clear()
        return [rest] if rest else []
