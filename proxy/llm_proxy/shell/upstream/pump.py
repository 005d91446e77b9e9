"""Reads one upstream response without losing a byte, and says truly how it ended.

aiohttp's reader refuses to give out what it has once an error arrives.  So one task asks for
the response and then does nothing but read: it never awaits the client, and what an error cut
off is fetched afterwards.  What it reads goes to the recording at once and into a queue for the
client.  When the client is far behind, the transport is paused; a paused transport reports no
error either, so nothing can be lost then.

Silence is nobody's error: an idle limit turns it into one.  Only what the event loop could have
heard is silence: it looks often, and what a look comes late by does not count.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, Final, cast

import aiohttp

from llm_proxy.errors import UpstreamFailed
from llm_proxy.exchange import Ending, Head, Read
from llm_proxy.ports import Recording
from llm_proxy.routing import Call
from llm_proxy.shell.upstream.connection import Malformed, UpstreamResponse

log: Final = logging.getLogger("llm_proxy")

AHEAD: Final = 8 * 1024 * 1024
"""Bytes that the pump may be ahead of the client before it pauses the upstream."""
_LOOKS: Final = 8
"""How often we look within the idle limit whether the event loop stands still."""
_TURNS: Final = 3
"""Turns of the event loop after the limit: in one, what has arrived is read, in the next, the
protocol learns of an end, and in the third our task does."""

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
        self._call = call
        self._ask = ask
        self._idle = idle
        self._loop = asyncio.get_running_loop()
        self._begun = asyncio.Event()
        self._decided = asyncio.Event()
        self._head: Head | None = None
        self.head_at = 0.0
        """When the head arrived, in ms since the request was read in full."""
        self._failure = UpstreamFailed(502, "llm-proxy was stopped before the upstream answered")
        self._response: UpstreamResponse | None = None
        self._queue: list[Read] = []
        self._queued = 0
        self._news = asyncio.Event()
        self._paused = False
        self._holding = False
        self._abandoned = False
        self._stopped_as = Ending.KILLED
        self._last = self._loop.time()
        self._doubts = 0
        self._timer: asyncio.TimerHandle | None = None
        self.task = self._loop.create_task(self._run())
        self.task.add_done_callback(self._report)

    def record(self, recording: Recording | None) -> None:
        """Say where the response is recorded, if at all; nothing of it goes on before."""
        self.recording = recording
        self._decided.set()

    @property
    def has_answer(self) -> bool:
        """Whether a head has arrived."""
        return self._head is not None

    async def head(self) -> Head:
        """The head, once it has arrived.  Raises `UpstreamFailed`, and what is a fault of ours."""
        await self._begun.wait()  # `ask` has its limits
        if self._head is None:
            self._raise_fault()
            raise self._failure
        return self._head

    async def bursts(self) -> AsyncGenerator[list[Read], None]:
        """What arrived, as it arrives; ends when the response does, and sets `ending`.

        Raises what is a fault of ours: it is no ending of the response.
        """
        while True:
            await self._news.wait()  # the idle limit is news as well
            self._news.clear()
            pieces, self._queue, self._queued = self._queue, [], 0
            if self._paused:
                self._pause(paused=False)
            if pieces:
                yield pieces
            if self.ending is not None and not self._queue:
                self._raise_fault()
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
        # Not awaited itself, so that the one who waits can be cancelled; the task ends at once.
        await asyncio.wait([self.task])

    def _raise_fault(self) -> None:
        """Raise what ended the task, if that was neither its work nor a stop."""
        if self.task.done() and not self.task.cancelled():
            self.task.result()

    def _report(self, task: asyncio.Task[None]) -> None:
        """Say what is a fault of ours, where no client waits to whom it is raised."""
        if self._abandoned and not task.cancelled() and (fault := task.exception()) is not None:
            log.error("a fault in llm-proxy; please report it", exc_info=fault)

    async def _run(self) -> None:
        try:
            response, head = await self._ask()
            self.head_at = self._call.elapsed()
            try:
                await self._decided.wait()  # two turns of the event loop, which the answer outran
            except asyncio.CancelledError:
                response.close()
                raise
            self._head = head
        except UpstreamFailed as failure:
            self._failure = failure
            return
        finally:
            self._begun.set()
        await self._pump(response, head)

    async def _pump(self, response: UpstreamResponse, head: Head) -> None:
        """Nothing is awaited before the first read: what comes with the head must be seen."""
        self._response = response
        ending = Ending.RECORDER_ERROR  # unless we learn better, it is a fault of ours
        self._last = self._loop.time()
        self._watch(self._idle)
        try:
            if self.recording is not None:
                self.recording.head(self._call.elapsed(), head)
            ending = await self._read(response, head)
        except asyncio.CancelledError:
            ending = self._stopped_as
            raise
        finally:
            if self._timer is not None:
                self._timer.cancel()
            try:
                self._salvage(response.content)
            finally:
                self._let_go(response, ending)
                self._finish(ending)

    @staticmethod
    def _let_go(response: UpstreamResponse, ending: Ending) -> None:
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
                    if self.recording is not None and not self.recording.keeps_up:
                        await self._hold_on(self.recording)
        except _Stalled:
            return Ending.STALLED
        except Malformed:
            return Ending.MALFORMED
        except (aiohttp.ClientError, OSError):
            return Ending.RST if receiver.was_reset else Ending.FIN
        if head.framing == "close" and receiver.was_reset:
            return Ending.RST
        return Ending.CLEAN

    async def _hold_on(self, recording: Recording) -> None:
        """Read nothing until the recording has caught up; the upstream is not silent meanwhile."""
        self._holding = True
        await recording.catch_up()
        self._holding, self._last = False, self._loop.time()

    def _salvage(self, content: aiohttp.StreamReader) -> None:
        """Take what arrived before an error, and is kept from readers after it."""
        content.set_exception(cast("Any", None))
        if data := content.read_nowait():
            self._arrived(data)

    def _arrived(self, data: bytes) -> None:
        self._last = self._loop.time()
        read = Read(self._call.elapsed(), data)
        if not self._abandoned:
            self._queue.append(read)
            self._queued += len(data)
            self._news.set()  # before the recording, so that the client has its turn first
            if self._queued > AHEAD:
                self._pause(paused=True)
        if self.recording is not None:
            self.recording.read(read)

    def _finish(self, ending: Ending) -> None:
        self.ending = ending
        self._news.set()
        if self.recording is not None:
            self.recording.end(self._call.elapsed(), ending)

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
        self._timer = self._loop.call_later(min(seconds, self._idle / _LOOKS), self._look)

    def _look(self) -> None:
        """Look again until the limit is reached; a paused upstream is not silent."""
        self._forgive()
        left = self._last + self._idle - self._loop.time()
        if self._paused or self._holding:
            left = self._idle
        if left > 0:
            self._doubts = 0
            self._watch(left)
        elif self._doubts < _TURNS:
            self._doubts += 1
            self._watch(0)
        elif self._response is not None:
            self._response.content.set_exception(_Stalled())

    def _forgive(self) -> None:
        """Take off the silence what this look came late by: our loop stood still meanwhile.

        One that is late by more than looks are apart says no more than that: the loop may have
        stood still since the look before.
        """
        if self._timer is None:
            return
        now, apart = self._loop.time(), self._idle / _LOOKS
        late = now - self._timer.when()
        self._last = min(now, self._last + late + (apart if late > apart else 0))
