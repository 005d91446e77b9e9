"""Reads one upstream response without losing a byte, and determines how it ended.

aiohttp's reader does not return its buffered bytes once an error arrives.  So one task requests
the response and then does nothing but read: it never awaits the client, and bytes left in the
buffer after an error are read afterwards.  All bytes go to the recording at once, and into a
queue for the client.  When the client is far behind, the transport is paused; a paused transport
reports no error either, so nothing can be lost then.

Silence is not an error by itself: the idle timeout makes it one.  Time in which the event loop
was blocked does not count: a timer checks often, and its delay is deducted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, Final, cast

import aiohttp

from llm_proxy.errors import UpstreamFailed
from llm_proxy.exchange import Ending, Read, ResponseHead
from llm_proxy.ports import ActiveRecording
from llm_proxy.routing import RoutedRequest
from llm_proxy.shell.upstream.connection import MalformedResponse, UpstreamResponse

log: Final = logging.getLogger("llm_proxy")

MAX_QUEUED_BYTES: Final = 8 * 1024 * 1024
"""Bytes that may be queued for the client before the pump pauses the upstream."""
_CHECKS_PER_IDLE_TIMEOUT: Final = 8
"""Checks within one idle timeout, to notice a blocked event loop."""
_EXTRA_IDLE_CHECKS: Final = 3
"""Checks after the timeout, one event loop iteration each: in the first, arrived bytes are read,
in the second the protocol learns of an end, and in the third our task does."""

OpenResponse = Callable[[], Awaitable[tuple[UpstreamResponse, ResponseHead]]]
"""Sends the request and waits for the head.  Raises `UpstreamFailed`."""


class _UpstreamStalled(aiohttp.ClientPayloadError):
    """The upstream was silent for longer than the idle timeout."""


class ResponsePump:
    """Reads one upstream response, for the recording and the client."""

    def __init__(
        self, routed: RoutedRequest, open_response: OpenResponse, idle_timeout_s: float
    ) -> None:
        """Sends the request at once.  `idle_timeout_s` is the maximum silence within a body."""
        self.ending: Ending | None = None
        self.recording: ActiveRecording | None = None
        self._routed = routed
        self._open_response = open_response
        self._idle_timeout_s = idle_timeout_s
        self._loop = asyncio.get_running_loop()
        self._head_or_failure_event = asyncio.Event()
        self._recording_decided_event = asyncio.Event()
        self._head: ResponseHead | None = None
        self.head_at_ms = 0.0
        """When the head arrived, in ms since the request was read in full."""
        self._failure = UpstreamFailed(502, "llm-proxy stopped before the upstream responded")
        self._response: UpstreamResponse | None = None
        self._queue: list[Read] = []
        self._queued_bytes = 0
        self._wakeup_event = asyncio.Event()
        self._is_paused = False
        self._is_waiting_for_recording = False
        self._is_client_gone = False
        self._stop_ending = Ending.KILLED
        self._last_activity_at_s = self._loop.time()
        self._extra_check_count = 0
        self._idle_timer: asyncio.TimerHandle | None = None
        self.task = self._loop.create_task(self._open_and_pump())
        self.task.add_done_callback(self._log_internal_error)

    def set_recording(self, recording: ActiveRecording | None) -> None:
        """Set the response's recording, None for no recording; the pump waits for this call."""
        self.recording = recording
        self._recording_decided_event.set()
        if recording is not None:
            self.task.add_done_callback(self._end_recording_without_head)

    def _end_recording_without_head(self, _: asyncio.Task[None]) -> None:
        """End the recording of a request to which no response came: nothing is stored."""
        if self.recording is not None and self._head is None:
            self.recording.finish(self._routed.elapsed_ms(), self._stop_ending)

    @property
    def has_head(self) -> bool:
        """Whether a head has arrived."""
        return self._head is not None

    async def wait_for_head(self) -> ResponseHead:
        """The head, once it has arrived.  Raises `UpstreamFailed`, and internal errors."""
        await self._head_or_failure_event.wait()  # `_open_response` has its own timeouts
        if self._head is None:
            self._raise_any_internal_error()
            raise self._failure
        return self._head

    async def read_batches(self) -> AsyncGenerator[list[Read], None]:
        """Yield the reads as they arrive; ends with the response, when `ending` is set.

        Raises internal errors, which are no ending of the response.
        """
        while True:
            await self._wakeup_event.wait()  # also set at the idle timeout
            self._wakeup_event.clear()
            reads, self._queue, self._queued_bytes = self._queue, [], 0
            if self._is_paused:
                self._set_paused(paused=False)
            if reads:
                yield reads
            if self.ending is not None and not self._queue:
                self._raise_any_internal_error()
                return

    def detach_client(self) -> None:
        """Stop queueing for the client, and continue to read for the recording alone."""
        self._is_client_gone = True
        self._queue, self._queued_bytes = [], 0
        if self._is_paused:
            self._set_paused(paused=False)

    async def wait_until_done(self, timeout_s: float) -> None:
        """Wait for the end of the response, for at most `timeout_s` seconds."""
        await asyncio.wait([self.task], timeout=timeout_s)

    async def stop(self, ending: Ending) -> None:
        """Stop reading, and set `ending` unless the response has ended already."""
        self._stop_ending = ending
        self.task.cancel()
        # `asyncio.wait`, so that the caller can be cancelled; the task ends at once.
        await asyncio.wait([self.task])

    def _raise_any_internal_error(self) -> None:
        if self.task.done() and not self.task.cancelled():
            self.task.result()

    def _log_internal_error(self, task: asyncio.Task[None]) -> None:
        """Log an internal error if no client is left to raise it to."""
        if (
            self._is_client_gone
            and not task.cancelled()
            and (error := task.exception()) is not None
        ):
            log.error("internal error in llm-proxy; please report it", exc_info=error)

    async def _open_and_pump(self) -> None:
        try:
            response, head = await self._open_response()
            self.head_at_ms = self._routed.elapsed_ms()
            try:
                await (
                    self._recording_decided_event.wait()
                )  # at most two event loop iterations, if the response was faster
            except asyncio.CancelledError:
                response.close()
                raise
            self._head = head
        except UpstreamFailed as failure:
            self._failure = failure
            return
        finally:
            self._head_or_failure_event.set()
        await self._pump_response(response, head)

    async def _pump_response(self, response: UpstreamResponse, head: ResponseHead) -> None:
        """Nothing is awaited before the first read: bytes that come with the head must be seen."""
        self._response = response
        ending = Ending.RECORDER_ERROR  # an internal error, unless `_read_body` returns
        self._last_activity_at_s = self._loop.time()
        self._start_idle_timer(self._idle_timeout_s)
        try:
            if self.recording is not None:
                self.recording.record_head(self._routed.elapsed_ms(), head)
            ending = await self._read_body(response, head)
        except asyncio.CancelledError:
            ending = self._stop_ending
            raise
        finally:
            if self._idle_timer is not None:
                self._idle_timer.cancel()
            try:
                self._rescue_buffered_bytes(response.content)
            finally:
                self._close_response(response, ending)
                self._set_ending(ending)

    @staticmethod
    def _close_response(response: UpstreamResponse, ending: Ending) -> None:
        if ending is Ending.CLEAN:
            response.release()
        else:
            response.close()

    async def _read_body(self, response: UpstreamResponse, head: ResponseHead) -> Ending:
        content, protocol = response.content, response.protocol
        try:
            while not content.at_eof():
                data, _ = await content.readchunk()
                if data:
                    self._queue_and_record(data)
                    if self.recording is not None and not self.recording.has_capacity:
                        await self._wait_for_recording(self.recording)
        except _UpstreamStalled:
            return Ending.STALLED
        except MalformedResponse:
            return Ending.MALFORMED
        except (aiohttp.ClientError, OSError):
            return Ending.RST if protocol.was_reset else Ending.FIN
        if head.framing == "close" and protocol.was_reset:
            return Ending.RST
        return Ending.CLEAN

    async def _wait_for_recording(self, recording: ActiveRecording) -> None:
        """Wait until the recording has caught up; this time does not count as idle."""
        self._is_waiting_for_recording = True
        await recording.wait_for_capacity()
        self._is_waiting_for_recording, self._last_activity_at_s = False, self._loop.time()

    def _rescue_buffered_bytes(self, content: aiohttp.StreamReader) -> None:
        content.set_exception(cast("Any", None))
        if data := content.read_nowait():
            self._queue_and_record(data)

    def _queue_and_record(self, data: bytes) -> None:
        self._last_activity_at_s = self._loop.time()
        read = Read(self._routed.elapsed_ms(), data)
        if not self._is_client_gone:
            self._queue.append(read)
            self._queued_bytes += len(data)
            self._wakeup_event.set()  # before the recording, so that the client comes first
            if self._queued_bytes > MAX_QUEUED_BYTES:
                self._set_paused(paused=True)
        if self.recording is not None:
            self.recording.record_read(read)

    def _set_ending(self, ending: Ending) -> None:
        self.ending = ending
        self._wakeup_event.set()
        if self.recording is not None:
            self.recording.finish(self._routed.elapsed_ms(), ending)

    def _set_paused(self, *, paused: bool) -> None:
        """Pause or resume the upstream, unless the response is over.

        After its last byte the connection may belong to another response.
        """
        self._is_paused = paused
        response = self._response
        if response is None or response.content.is_eof():
            return
        transport = response.protocol.transport
        if transport is not None and not transport.is_closing():
            if paused:
                transport.pause_reading()
            else:
                self._last_activity_at_s = self._loop.time()
                transport.resume_reading()

    def _start_idle_timer(self, delay_s: float) -> None:
        self._idle_timer = self._loop.call_later(
            min(delay_s, self._idle_timeout_s / _CHECKS_PER_IDLE_TIMEOUT), self._check_idle_timeout
        )

    def _check_idle_timeout(self) -> None:
        """Restart the timer until the timeout is reached; a paused upstream is not idle."""
        self._compensate_loop_delay()
        remaining_s = self._last_activity_at_s + self._idle_timeout_s - self._loop.time()
        if self._is_paused or self._is_waiting_for_recording:
            remaining_s = self._idle_timeout_s
        if remaining_s > 0:
            self._extra_check_count = 0
            self._start_idle_timer(remaining_s)
        elif self._extra_check_count < _EXTRA_IDLE_CHECKS:
            self._extra_check_count += 1
            self._start_idle_timer(0)
        elif self._response is not None:
            self._response.content.set_exception(_UpstreamStalled())

    def _compensate_loop_delay(self) -> None:
        """Deduct this timer's delay from the idle time: the event loop was blocked meanwhile.

        If the delay is longer than the interval between checks, the interval is deducted too:
        the loop may have been blocked since the check before.
        """
        if self._idle_timer is None:
            return
        now_s, interval_s = self._loop.time(), self._idle_timeout_s / _CHECKS_PER_IDLE_TIMEOUT
        delay_s = now_s - self._idle_timer.when()
        self._last_activity_at_s = min(
            now_s, self._last_activity_at_s + delay_s + (interval_s if delay_s > interval_s else 0)
        )
