"""Reads one upstream response without losing a byte, and says truly how it ended.

aiohttp's reader refuses to give out what it has once an error arrives.  So one task asks for
the response and then does nothing but read: it never awaits the client, and what an error cut
off is fetched afterwards.  What it reads goes to the recording at once and into a queue for the
client.  When the client is far behind, the transport is paused; a paused transport reports no
error either, so nothing can be lost then.

Silence is nobody's error: an idle limit turns it into one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, cast

import aiohttp

from llm_proxy.errors import UpstreamFailed
from llm_proxy.exchange import Ending, Head, Read
from llm_proxy.ports import Recording
from llm_proxy.routing import Call
from llm_proxy.shell.upstream.connection import Malformed, UpstreamResponse

AHEAD: Final = 8 * 1024 * 1024
"""Bytes that the pump may be ahead of the client before it pauses the upstream."""

Ask = Callable[[], Awaitable[tuple[UpstreamResponse, Head]]]
"""Sends the request and waits for the head.  Raises `UpstreamFailed`."""


class _Stalled(aiohttp.ClientPayloadError):
    """The upstream was silent for longer than the idle limit."""


class Pump:
    """One response on its way from the upstream to the recording and the client."""

    def __init__(self, call: Call, ask: Ask, idle: float) -> None:
        """Asks at once.  `idle` is the longest silence of a body, in seconds."""
        self.ending: Ending | None = None
        self.recording: Recording | None = None
        """Set it before the head arrives, if at all."""
        self._call = call
        self._ask = ask
        self._idle = idle
        self._loop = asyncio.get_running_loop()
        self._begun = asyncio.Event()
        self._head: Head | None = None
        self._failure = UpstreamFailed(502, "llm-proxy was stopped before the upstream answered")
        self._response: UpstreamResponse | None = None
        self._queue: list[bytes] = []
        self._queued = 0
        self._news = asyncio.Event()
        self._paused = False
        self._abandoned = False
        self._stopped_as = Ending.KILLED
        self._last = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self.task = self._loop.create_task(self._run())

    async def head(self) -> Head:
        """The head, once it has arrived.  Raises `UpstreamFailed`."""
        await self._begun.wait()
        if self._head is None:
            if self.task.done() and not self.task.cancelled():
                self.task.result()  # raises where it was a fault of ours
            raise self._failure
        return self._head

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

    async def over(self, within: float) -> None:
        """Wait for the end, for at most so many seconds."""
        await asyncio.wait([self.task], timeout=within)

    async def stop(self, ending: Ending) -> None:
        """Let the upstream go, with that ending, unless the response has ended already."""
        self._stopped_as = ending
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task

    async def _run(self) -> None:
        try:
            response, self._head = await self._ask()
        except UpstreamFailed as failure:
            self._failure = failure
            return
        finally:
            self._begun.set()
        await self._pump(response, self._head)

    async def _pump(self, response: UpstreamResponse, head: Head) -> None:
        """Nothing is awaited before the first read: what comes with the head must be seen."""
        if self.recording is not None:
            self.recording.head(self._call.elapsed(), head)
        self._response = response
        ending: Ending | None = None
        self._watch(self._idle)
        try:
            ending = await self._read(response, head)
        finally:
            if self._timer is not None:
                self._timer.cancel()
            self._salvage(response.content)
            self._finish(ending or self._stopped_as)
            if ending is Ending.CLEAN:
                response.release()
            else:
                response.close()

    async def _read(self, response: UpstreamResponse, head: Head) -> Ending:
        content, receiver = response.content, response.receiver
        try:
            while not content.at_eof():
                data, _ = await content.readchunk()
                if data:
                    self._arrived(data)
        except _Stalled:
            return Ending.STALLED
        except Malformed:
            return Ending.MALFORMED
        except (aiohttp.ClientError, OSError):
            return Ending.RST if receiver.was_reset else Ending.FIN
        if head.framing == "close" and receiver.was_reset:
            return Ending.RST
        return Ending.CLEAN

    def _salvage(self, content: aiohttp.StreamReader) -> None:
        """Take what arrived before an error, and is kept from readers after it."""
        content.set_exception(cast("Any", None))
        if data := content.read_nowait():
            self._arrived(data)

    def _arrived(self, data: bytes) -> None:
        self._last, at = self._loop.time(), self._call.elapsed()
        if not self._abandoned:
            self._queue.append(data)
            self._queued += len(data)
            self._news.set()  # before the recording, so that the client has its turn first
            if self._queued > AHEAD:
                self._pause(paused=True)
        if self.recording is not None:
            self.recording.read(Read(at, data))

    def _finish(self, ending: Ending) -> None:
        self.ending = ending
        if self.recording is not None:
            self.recording.end(self._call.elapsed(), ending)
        self._news.set()

    def _pause(self, *, paused: bool) -> None:
        """Pause the upstream, or let it go on; its connection is another's after the last byte."""
        self._paused = paused
        response = self._response
        if response is None or response.content.is_eof():
            return
        transport = response.receiver.transport
        if transport is not None and not transport.is_closing():
            if paused:
                transport.pause_reading()
            else:
                self._last = self._loop.time()
                transport.resume_reading()

    def _watch(self, seconds: float) -> None:
        self._timer = self._loop.call_later(seconds, self._check_idle)

    def _check_idle(self) -> None:
        """Look again when the limit could be reached; a paused upstream is not silent."""
        left = self._last + self._idle - self._loop.time()
        if self._paused:
            left = self._idle
        if left > 0:
            self._watch(left)
        elif self._response is not None:
            self._response.content.set_exception(_Stalled())
