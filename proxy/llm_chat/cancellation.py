"""Ends a stream of events from outside."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, TypeVar

T = TypeVar("T")


async def wait_until_done(*tasks: asyncio.Future[Any]) -> None:
    """Wait for tasks that end soon, even if the waiting task is cancelled meanwhile."""
    cancelled: asyncio.CancelledError | None = None
    while not all(task.done() for task in tasks):
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled


async def until_cancelled(
    events: AsyncGenerator[T, None], cancel: asyncio.Event
) -> AsyncGenerator[T, None]:
    """The events up to their end, or until `cancel` is set.

    Then `events` is closed at once, even while the consumer is busy with an event: it runs in a
    task of its own, which waits for the consumer to ask for the next event.
    """
    queue: asyncio.Queue[T | None] = asyncio.Queue()
    is_wanted = asyncio.Event()

    async def pump() -> None:
        async with aclosing(events):
            async for event in events:
                if pump_task.cancelling():  # a source that went on
                    return
                is_wanted.clear()
                queue.put_nowait(event)
                await is_wanted.wait()

    def wake_consumer(_: asyncio.Task[None]) -> None:
        if queue.empty():
            queue.put_nowait(None)

    def cancel_pump(_: object = None) -> None:
        if not pump_task.cancelling():  # a second time would interrupt the closing of `events`
            pump_task.cancel()

    pump_task = asyncio.create_task(pump())
    pump_task.add_done_callback(wake_consumer)
    cancel_task = asyncio.create_task(cancel.wait())
    cancel_task.add_done_callback(cancel_pump)
    try:
        while not cancel.is_set() and not (pump_task.done() and queue.empty()):
            is_wanted.set()
            if (event := await queue.get()) is not None and not cancel.is_set():
                yield event
    finally:
        cancel_pump()
        cancel_task.cancel()
        await wait_until_done(pump_task, cancel_task)
        error = None if pump_task.cancelled() else pump_task.exception()
    if error is not None and not cancel.is_set():
        raise error
