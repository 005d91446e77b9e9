"""Reads one upstream response without losing a byte, and says truly how it ended.

aiohttp's reader drops bytes it already has when an error arrives before they are read, so one
task does nothing but read: it never awaits the client.  What it reads goes to the recording at
once and into a queue for the client.  When the client is far behind, the transport is paused;
a paused transport reports no error either, so nothing can be lost then.

Three endings that aiohttp does not report are found by watching the connection itself:

* a malformed chunk leaves the C parser's reader waiting for ever; the connection closes at once
* a reset of a body delimited by close looks like a clean end; the connection knows better
* silence is nobody's error; an idle limit turns it into `stalled`
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError

from llm_proxy.exchange import Ending, Framing, Read
from llm_proxy.ports import Recording
from llm_proxy.routing import Call

AHEAD: Final = 8 * 1024 * 1024
"""Bytes that the pump may be ahead of the client before it pauses the upstream."""


class Pump:
    """One response on its way from the upstream to the recording and the client."""

    def __init__(
        self, response: aiohttp.ClientResponse, framing: Framing, call: Call,
        recording: Recording | None, idle: float,
    ) -> None:  # fmt: skip
        """`idle` is the longest silence in seconds.  Make it in the step that got the head."""
        self.ending: Ending | None = None
        self._response = response
        self._framing = framing
        self._call = call
        self._recording = recording
        self._idle = idle
        self._loop = asyncio.get_running_loop()
        self._queue: list[bytes] = []
        self._queued = 0
        self._news = asyncio.Event()
        self._paused = False
        self._abandoned = False
        self._limit = asyncio.timeout(None)
        self._last = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None
        connection = response.connection
        self._transport = connection.transport if connection is not None else None
        self._protocol = connection.protocol if connection is not None else None
        self._closed = self._protocol.closed if self._protocol is not None else None
        if self._closed is not None:
            self._closed.add_done_callback(self._connection_closed)
        self.task = self._loop.create_task(self._run())

    async def bursts(self) -> AsyncIterator[list[bytes]]:
        """What arrived, as it arrives; ends when the response does, and sets `ending`."""
        while True:
            await self._news.wait()
            self._news.clear()
            pieces, self._queue, self._queued = self._queue, [], 0
            if self._paused:
                self._pause(paused=False)
            if pieces:
                yield pieces
            if self.ending is not None and not self._queue:
                return

    def abandon(self) -> None:
        """Nobody wants the pieces any more: go on reading for the recording alone."""
        self._abandoned = True
        self._queue, self._queued = [], 0
        if self._paused:
            self._pause(paused=False)

    async def stop(self, ending: Ending) -> None:
        """Let the upstream go, with that ending, unless the response has ended already."""
        if self.ending is None:
            self._finish(ending)
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task

    async def _run(self) -> None:
        self._timer = self._loop.call_later(self._idle, self._check_idle)
        try:
            ending = await self._read()
        except asyncio.CancelledError:
            self._response.close()
            raise
        else:
            self._finish(ending)
        finally:
            self._timer.cancel()
            self._finish(Ending.KILLED)  # of no effect unless the reading itself was broken off
            if self.ending is Ending.CLEAN:
                self._response.release()
            else:
                self._response.close()

    async def _read(self) -> Ending:
        try:
            async with self._limit:
                async for data, _ in self._response.content.iter_chunks():
                    if data:
                        self._arrived(data)
        except TimeoutError:
            return Ending.STALLED if not self._connection_is_lost() else self._broken()
        except (aiohttp.ClientError, OSError):
            return self._broken()
        if self._framing == "close" and self._was_reset():
            return Ending.RST
        return Ending.CLEAN

    def _arrived(self, data: bytes) -> None:
        self._last = self._loop.time()
        if self._recording is not None:
            self._recording.read(Read(self._call.elapsed(), data))
        if self._abandoned:
            return
        self._queue.append(data)
        self._queued += len(data)
        self._news.set()
        if self._queued > AHEAD:
            self._pause(paused=True)

    def _finish(self, ending: Ending) -> None:
        if self.ending is None:
            self.ending = ending
            if self._recording is not None:
                self._recording.end(self._call.elapsed(), ending)
        self._news.set()

    def _pause(self, *, paused: bool) -> None:
        self._paused = paused
        if self._transport is not None and not self._transport.is_closing():
            if paused:
                self._transport.pause_reading()
            else:
                self._last = self._loop.time()
                self._transport.resume_reading()

    def _check_idle(self) -> None:
        """Look again when the limit could be reached; a paused upstream is not silent."""
        left = self._last + self._idle - self._loop.time()
        if self._paused:
            left = self._idle
        if left > 0:
            self._timer = self._loop.call_later(left, self._check_idle)
        else:
            self._expire()

    def _connection_closed(self, closed: asyncio.Future[None]) -> None:
        """Runs after aiohttp has dealt with the loss of the connection."""
        if not closed.cancelled():
            closed.exception()  # taken note of
        content = self._response.content
        if self.ending is None and not content.is_eof() and content.exception() is None:
            self._expire()  # the reader was forgotten

    def _expire(self) -> None:
        with suppress(RuntimeError):  # the reader has just left the limit's scope
            self._limit.reschedule(self._loop.time())

    def _connection_is_lost(self) -> bool:
        return self._closed is not None and self._closed.done()

    def _was_reset(self) -> bool:
        closed = self._closed
        if closed is None or not closed.done() or closed.cancelled():
            return False
        return closed.exception() is not None

    def _broken(self) -> Ending:
        """How a response broke off: asked of the connection, which keeps the first reason."""
        if self._protocol is not None and isinstance(
            self._protocol.exception(), HttpProcessingError
        ):
            return Ending.MALFORMED
        return Ending.RST if self._was_reset() else Ending.FIN
