"""What arrived and is not on the disk yet: how much it may be, and how long one waits for it."""

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
        self._room = asyncio.Event()
        self._room.set()

    def grow(self, size: int) -> None:
        """So many bytes arrived, or, below zero, reached the disk."""
        self._size += size
        if self._size > LARGEST:
            self._room.clear()
        else:
            self._room.set()

    @property
    def has_room(self) -> bool:
        """Whether the disk keeps up."""
        return self._room.is_set()

    async def room(self) -> bool:
        """Wait until the disk has caught up; False where that takes longer than `PATIENCE`."""
        try:
            async with asyncio.timeout(PATIENCE):
                return await self._room.wait()
        except TimeoutError:
            return False
