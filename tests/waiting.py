"""Waiting for a condition, with a time limit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path


async def wait_until(condition: Callable[[], bool], timeout_s: float = 20.0) -> None:
    """Wait until `condition` returns true, for at most so many seconds."""
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 # the condition often depends on another process
            await asyncio.sleep(0.01)


async def wait_for_first_line(path: Path, timeout_s: float = 20.0) -> str:
    """Wait for a complete line in a file, and return the first line."""
    await wait_until(lambda: path.exists() and path.read_text().endswith("\n"), timeout_s)
    return path.read_text().splitlines()[0]
