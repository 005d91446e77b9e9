"""Limits the bytes that wait for the disk, and the time that recordings wait for it."""

from __future__ import annotations

import asyncio
from typing import Final

MAX_BACKLOG_BYTES: Final = 16 * 1024 * 1024
"""Bytes that may wait for the disk; beyond that upstreams are paused."""
MAX_WAIT_S: Final = 5.0
"""Maximum pause in seconds; then the recordings are given up, and their clients continue."""


class Backlog:
    """Counts the bytes that wait for the disk, of all recordings together."""

    def __init__(self) -> None:
        self._pending_bytes = 0
        self._capacity_event = asyncio.Event()
        self._capacity_event.set()

    def adjust_pending_bytes(self, byte_delta: int) -> None:
        """Add the bytes that arrived, or, if negative, subtract those that reached the disk."""
        self._pending_bytes += byte_delta
        if self._pending_bytes > MAX_BACKLOG_BYTES:
            self._capacity_event.clear()
        else:
            self._capacity_event.set()

    @property
    def has_capacity(self) -> bool:
        """Whether no more than `MAX_BACKLOG_BYTES` wait."""
        return self._capacity_event.is_set()

    async def wait_for_capacity(self) -> bool:
        """Wait until the disk has caught up; False if that takes longer than `MAX_WAIT_S`."""
        try:
            async with asyncio.timeout(MAX_WAIT_S):
                return await self._capacity_event.wait()
        except TimeoutError:
            return False
