"""Waiting for what will be true soon, with a limit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path


async def until(holds: Callable[[], bool], within: float = 20.0) -> None:
    """Wait until `holds` does, for at most so many seconds."""
    async with asyncio.timeout(within):
        while not holds():  # noqa: ASYNC110 # what is waited for is often in another process
            await asyncio.sleep(0.01)


async def appeared(path: Path, within: float = 20.0) -> str:
    """The first line of a file, once it is there."""
    await until(lambda: path.exists() and path.read_text().endswith("\n"), within)
    return path.read_text().splitlines()[0]
