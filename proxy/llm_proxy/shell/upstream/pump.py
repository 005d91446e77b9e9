"""Reads one upstream response without losing a byte, and determines how it ended.

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
from llm_proxy.exchange import Ending, Read, ResponseHead
from llm_proxy.ports import Recording
from llm_proxy.routing import RoutedRequest
from llm_proxy.shell.upstream.connection import MalformedResponse, UpstreamResponse

log: Final = logging.getLogger("llm_proxy")

AHEAD: Final = 8 * 1024 * 1024
"""Bytes that the pump may be ahead of the client before it pauses the upstream."""
_LOOKS: Final = 8
"""How often we look within the idle limit whether the event loop stands still."""
_TURNS: Final = 3
"""Turns of the event loop after the limit: in one, what has arrived is read, in the next, the
protocol learns of an end, and in the third our task does."""

Ask = Callable[[], Awaitable[tuple[UpstreamResponse, ResponseHead]]]
"""Sends the request and waits for the head.  Raises `UpstreamFailed`."""


class _Stalled(aiohttp.ClientPayloadError):
    """The upstream was silent for longer than the idle limit."""


class ResponsePump:
    """One response on its way from the upstream to the recording and the client."""

    def __init__(self, routed: RoutedRequest, ask: Ask, idle: float) -> None:
        """Asks at once.  `idle` is the longest silence of a body, in seconds."""
        self.ending: Ending | None = None
        self.recording: Recording | None = None
        self._call = routed
        self._send_request = ask
        self._idle_limit = idle
        self._loop = asyncio.get_running_loop()
        self._is_started = asyncio.Event()
        self._recording_decided = asyncio.Event()
        self._head: ResponseHead | None = None
        self.head_at = 0.0
        """When the head arrived, in ms since the request was read in full."""
        self._failure = UpstreamFailed(502, "llm-proxy was stopped before the upstream answered")
        self._response: UpstreamResponse | None = None
        self._queue: list[Read] = []
        self._queued_size = 0
        self._news_event = asyncio.Event()
        self._paused = False
        self._is_waiting_for_recording = False
        self._is_client_gone = False
        self._stop_ending = Ending.KILLED
        self._last_activity = self._loop.time()
        self._surplus_counter = 0
        self._timer: asyncio.TimerHandle | None = None
        self.task = self._loop.create_task(self._run_task())
        self.task.add_done_callback(self._log_internal_error)

    def set_recording(self, recording: Recording | None) -> None:
        """Say where the response is recorded, if at all; nothing of it goes on before."""
        self.recording = recording
        self._recording_decided.set()

    @property
    def has_head(self) -> bool:
        """Whether a head has arrived."""
        return self._head is not None

    async def head(self) -> ResponseHead:
        """The head, once it has arrived.  Raises `UpstreamFailed`, and what is a fault of ours."""
        await self._is_started.wait()  # `ask` has its limits
        if self._head is None:
            self._raise_internal_error()
            raise self._failure
        return self._head

    async def bursts(self) -> AsyncGenerator[list[Read], None]:
        """What arrived, as it arrives; ends when the response does, and sets `ending`.

        Raises what is a fault of ours: it is no ending of the response.
        """
        while True:
            await self._news_event.wait()  # the idle limit is news as well
            self._news_event.clear()
            pieces, self._queue, self._queued_size = self._queue, [], 0
            if self._paused:
                self._set_paused(paused=False)
            if pieces:
                yield pieces
            if self.ending is not None and not self._queue:
                self._raise_internal_error()
                return

    def release_client(self) -> None:
        """Nobody wants the pieces any more: go on reading for the recording alone."""
        self._is_client_gone = True
        self._queue, self._queued_size = [], 0
        if self._paused:
            self._set_paused(paused=False)

    async def wait_finished(self, within: float) -> None:
        """Wait for the end, for at most so many seconds."""
        await asyncio.wait([self.task], timeout=within)

    async def stop(self, ending: Ending) -> None:
        """Let the upstream go, with that ending, unless the response has ended already."""
        self._stop_ending = ending
        self.task.cancel()
        # Not awaited itself, so that the one who waits can be cancelled; the task ends at once.
        await asyncio.wait([self.task])

    def _raise_internal_error(self) -> None:
        if self.task.done() and not self.task.cancelled():
            self.task.result()

    def _log_internal_error(self, task: asyncio.Task[None]) -> None:
        """Say what is a fault of ours, where no client waits to whom it is raised."""
        if (
            self._is_client_gone
            and not task.cancelled()
            and (fault := task.exception()) is not None
        ):
            log.error("a fault in llm-proxy; please report it", exc_info=fault)

    async def _run_task(self) -> None:
        try:
            response, head = await self._send_request()
            self.head_at = self._call.elapsed_ms()
            try:
                await (
                    self._recording_decided.wait()
                )  # two turns of the event loop, which the answer outran
            except asyncio.CancelledError:
                response.close()
                raise
            self._head = head
        except UpstreamFailed as failure:
            self._failure = failure
            return
        finally:
            self._is_started.set()
        await self._pump_response(response, head)

    async def _pump_response(self, response: UpstreamResponse, head: ResponseHead) -> None:
        """Nothing is awaited before the first read: what comes with the head must be seen."""
        self._response = response
        ending = Ending.RECORDER_ERROR  # unless we learn better, it is a fault of ours
        self._last_activity = self._loop.time()
        self._start_idle_timer(self._idle_limit)
        try:
            if self.recording is not None:
                self.recording.record_head(self._call.elapsed_ms(), head)
            ending = await self._read_body(response, head)
        except asyncio.CancelledError:
            ending = self._stop_ending
            raise
        finally:
            if self._timer is not None:
                self._timer.cancel()
            try:
                self._drain_after_error(response.content)
            finally:
                self._close_response(response, ending)
                self._finish_recording(ending)

    @staticmethod
    def _close_response(response: UpstreamResponse, ending: Ending) -> None:
        if ending is Ending.CLEAN:
            response.release()
        else:
            response.close()

    async def _read_body(self, response: UpstreamResponse, head: ResponseHead) -> Ending:
        content, receiver = response.content, response.protocol
        try:
            while not content.at_eof():
                data, _ = await content.readchunk()
                if data:
                    self._handle_data(data)
                    if self.recording is not None and not self.recording.has_capacity:
                        await self._wait_for_recording(self.recording)
        except _Stalled:
            return Ending.STALLED
        except MalformedResponse:
            return Ending.MALFORMED
        except (aiohttp.ClientError, OSError):
            return Ending.RST if receiver.was_reset else Ending.FIN
        if head.framing == "close" and receiver.was_reset:
            return Ending.RST
        return Ending.CLEAN

    async def _wait_for_recording(self, recording: Recording) -> None:
        """Read nothing until the recording has caught up; the upstream is not silent meanwhile."""
        self._is_waiting_for_recording = True
        await recording.wait_for_capacity()
        self._is_waiting_for_recording, self._last_activity = False, self._loop.time()

    def _drain_after_error(self, content: aiohttp.StreamReader) -> None:
        content.set_exception(cast("Any", None))
        if data := content.read_nowait():
            self._handle_data(data)

    def _handle_data(self, data: bytes) -> None:
        self._last_activity = self._loop.time()
        read = Read(self._call.elapsed_ms(), data)
        if not self._is_client_gone:
            self._queue.append(read)
            self._queued_size += len(data)
            self._news_event.set()  # before the recording, so that the client has its turn first
            if self._queued_size > AHEAD:
                self._set_paused(paused=True)
        if self.recording is not None:
            self.recording.record_read(read)

    def _finish_recording(self, ending: Ending) -> None:
        self.ending = ending
        self._news_event.set()
        if self.recording is not None:
            self.recording.finish(self._call.elapsed_ms(), ending)

    def _set_paused(self, *, paused: bool) -> None:
        """Pause the upstream, or let it go on; its connection is another's after the last byte."""
        self._paused = paused
        response = self._response
        if response is None or response.content.is_eof():
            return
        transport = response.protocol.transport
        if transport is not None and not transport.is_closing():
            if paused:
                transport.pause_reading()
            else:
                self._last_activity = self._loop.time()
                transport.resume_reading()

    def _start_idle_timer(self, seconds: float) -> None:
        self._timer = self._loop.call_later(
            min(seconds, self._idle_limit / _LOOKS), self._check_idle
        )

    def _check_idle(self) -> None:
        """Look again until the limit is reached; a paused upstream is not silent."""
        self._compensate_loop_delay()
        left = self._last_activity + self._idle_limit - self._loop.time()
        if self._paused or self._is_waiting_for_recording:
            left = self._idle_limit
        if left > 0:
            self._surplus_counter = 0
            self._start_idle_timer(left)
        elif self._surplus_counter < _TURNS:
            self._surplus_counter += 1
            self._start_idle_timer(0)
        elif self._response is not None:
            self._response.content.set_exception(_Stalled())

    def _compensate_loop_delay(self) -> None:
        """Take off the silence what this look came late by: our loop stood still meanwhile.

        One that is late by more than looks are apart says no more than that: the loop may have
        stood still since the look before.
        """
        if self._timer is None:
            return
        now, apart = self._loop.time(), self._idle_limit / _LOOKS
        late = now - self._timer.when()
        self._last_activity = min(now, self._last_activity + late + (apart if late > apart else 0))
