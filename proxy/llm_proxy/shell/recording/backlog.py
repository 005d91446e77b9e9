"""Limits the bytes that wait for the disk, and the time to wait for it."""

from __future__ import annotations

import asyncio
from typing import Final

LARGEST: Final = 16 * 1024 * 1024
"""Bytes that may wait for the disk; upstreams that send more on top of them have to wait."""
PATIENCE: Final = 5.0
"""Seconds for which they wait; then their recordings are given up, and their clients go on."""


class Backlog:
    """Bytes on their way to the disk, of all recordings together."""

    def __init__(self) -> None:
        self._size = 0
        self._capacity_event = asyncio.Event()
        self._capacity_event.set()

    def add(self, size: int) -> None:
        """So many bytes arrived, or, below zero, reached the disk."""
        self._size += size
        if self._size > LARGEST:
            self._capacity_event.clear()
        else:
            self._capacity_event.set()

    @property
    def has_capacity(self) -> bool:
        """Whether the disk keeps up."""
        return self._capacity_event.is_set()

    async def wait_for_capacity(self) -> bool:
        """Wait until the disk has caught up; False where that takes longer than `PATIENCE`."""
        try:
            async with asyncio.timeout(PATIENCE):
                return await self._capacity_event.wait()
        except TimeoutError:
            return False
