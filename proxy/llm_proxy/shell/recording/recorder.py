"""Records exchanges while they run, without delaying clients.

    event loop                                       filing thread
    ----------                                       -------------
    start, head,          10 ms later:               at the end:
    read, end        ──▶  key, decode, redact,  ──▶  spool to cassette
    (append to a list)    append to the spool
                          (the large and the slow in a spooling thread)

Clients come first: bytes are passed on at once, and written afterwards, with pauses for new
arrivals.  What a client has had for 50 ms survives the death of this process.

An append takes some microseconds, and on a busy machine a thread may have to wait much longer
than that to be scheduled.  So small appends run on the event loop; large ones, and all of them
while the disk is slow, run in a thread, so that no stream waits for them.  A disk error never
reaches the client: the recording ends there, which is logged once and affects the exit code.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import time
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from llm_proxy.errors import SpoolError
from llm_proxy.routing import RoutedRequest
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.recording.backlog import Backlog
from llm_proxy.shell.recording.cassette_filer import CassetteFiler, FiledCassette
from llm_proxy.shell.recording.spool_writer import EndItem, RecordingItem, SpoolWriter, StartItem
from llm_proxy.shell.recording.spooled_recording import ItemBatch, SpooledRecording
from llm_proxy.take_numbers import RequestCounter

log: Final = logging.getLogger("llm_proxy")

WRITE_DELAY_S: Final = 0.01
"""Seconds from the arrival of an item to its write."""
SLOW_WRITE_S: Final = 0.1
"""Duration of a small write beyond which the disk counts as slow, until one is faster again."""
_MAX_LOOP_WORK_S: Final = 0.0005
"""Seconds of work on the event loop after which other tasks get to run."""
_CLOSE_TIMEOUT_S: Final = 30.0
"""Seconds without progress in `close` after which the disk is given up."""
_MAX_SCAN_WAIT_S: Final = 0.1
"""Maximum seconds by which the scan of the library delays the start of a run."""
_MIN_LOGGED_FILINGS: Final = 20
"""Number of unfiled recordings in `close` beyond which it is logged."""


@dataclass(frozen=True, slots=True)
class RecorderEvents:
    """Callbacks for the results of recordings; called on the event loop.

    The first argument describes the request; the second is the cassette, or the reason for a
    failure.
    """

    on_filed: Callable[[str, FiledCassette], None]
    on_failed: Callable[[str, str], None]


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The result of writing one batch of a recording."""

    writer: SpoolWriter
    end_item: EndItem | None
    """The end of the recording, if the batch contained it."""
    error: Exception | None
    """The error, if writing failed."""
    duration_s: float
    """Seconds."""


class SpoolRecorder:
    """Starts recordings, writes them to spools and files them in the library."""

    def __init__(
        self, library: Library, spool_folder: Path, events: RecorderEvents, *, replaces_older: bool
    ) -> None:
        self._library_path = str(library.root.absolute())
        self._spool_folder = spool_folder
        self._events = events
        self._filer = CassetteFiler(library, replaces_older=replaces_older)
        self._request_counter = RequestCounter()
        self._spool_numbers = itertools.count(1)
        self._spooling_executor = ThreadPoolExecutor(1, "spooling")
        self._filing_executor = ThreadPoolExecutor(1, "filing")
        self._scan_future = self._filing_executor.submit(self._filer.scan_existing)
        """Filing waits for it; clients do not."""
        self._pending: deque[SpooledRecording] = deque()
        self._thread_write_count = 0
        """Batches in the spooling thread; while there are any, later ones must go there too."""
        self._is_disk_slow = False
        self._tasks: set[asyncio.Future[None]] = set()
        self.backlog = Backlog()
        self.settled_count = 0
        """Recordings with a head: filed, left out for another attempt, or reported as lost."""
        self.is_disk_hanging = False
        """Whether `close` gave up on the disk: a thread may wait for it for ever."""

    async def wait_until_scanned(self) -> None:
        """Wait until the library is scanned, but no longer than `_MAX_SCAN_WAIT_S`.

        If it takes longer, takes that other processes add meanwhile count as older ones.
        """
        scan_future = asyncio.wrap_future(self._scan_future)
        done, _ = await asyncio.wait({scan_future}, timeout=_MAX_SCAN_WAIT_S)
        for future in done:
            future.result()

    def start_recording(self, routed: RoutedRequest, take: int | None = None) -> SpooledRecording:
        """Start to record an exchange as its key's next take of the run, or as number `take`."""
        return SpooledRecording(self, StartItem(routed, take))

    def new_writer(self) -> SpoolWriter:
        """A writer for a new spool."""
        name = f"{os.getpid()}-{next(self._spool_numbers)}.spool"
        return SpoolWriter(self._spool_folder, name, self._library_path, self._request_counter)

    def reset_session(self, session: str) -> None:
        """Number the takes of this session from 1 again, beginning with the next request."""
        self._write_all()
        if self._thread_write_count:
            self._thread_write_count += 1
            self._start_task(
                self._await_reset(
                    self._spooling_executor.submit(self._request_counter.reset_session, session)
                )
            )
        else:
            self._request_counter.reset_session(session)

    async def _await_reset(self, reset_future: Future[None]) -> None:
        await asyncio.wrap_future(reset_future)
        self._thread_write_count -= 1

    async def close(self) -> None:
        """Write and file all recordings; every one must have ended."""
        self._write_all()
        if len(self._tasks) > _MIN_LOGGED_FILINGS:
            log.info("filing %d recordings", len(self._tasks))
        while self._tasks:
            done, _ = await asyncio.wait(
                self._tasks, timeout=_CLOSE_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED
            )
            if not done:
                self._abandon()
                break
            self._write_all()
        for executor in (self._spooling_executor, self._filing_executor):
            executor.shutdown(wait=not self._tasks, cancel_futures=True)

    def _abandon(self) -> None:
        """Give up on a hanging disk; `recover` can file what was written."""
        self.is_disk_hanging = True
        reason = (
            f"the disk took nothing for {_CLOSE_TIMEOUT_S:g} s; what it has is in "
            f"{self._spool_folder}"
        )
        for task in self._tasks:
            task.cancel()
            self._events.on_failed("a recording", f"{reason}: llm-proxy recover")

    def schedule_write(self, recording: SpooledRecording) -> None:
        """Schedule a write of the recording's pending items, after the clients were served."""
        self._pending.append(recording)
        if len(self._pending) == 1:
            asyncio.get_running_loop().call_later(WRITE_DELAY_S, self._write_pending)

    def _write_pending(self) -> None:
        """Write pending recordings in order, yielding after `_MAX_LOOP_WORK_S`."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _MAX_LOOP_WORK_S
        while self._pending:
            self._write_recording(self._pending.popleft())
            if self._pending and loop.time() > deadline:
                loop.call_soon(self._write_pending)
                return

    def _write_all(self) -> None:
        while self._pending:
            self._write_recording(self._pending.popleft())

    def _write_recording(self, recording: SpooledRecording) -> None:
        """Write the pending items of one recording, here or in the spooling thread."""
        if recording.is_in_thread:  # pending items are scheduled when that is done
            return
        batch = recording.pop_pending_items()
        if self._thread_write_count == 0 and not self._is_disk_slow and batch.is_small:
            self._handle_write_result(_write_items(recording.writer, batch.items), batch)
        else:
            self._thread_write_count += 1
            recording.is_in_thread = True
            write_future = self._spooling_executor.submit(
                _write_items, recording.writer, batch.items
            )
            self._start_task(self._await_write_result(recording, write_future, batch))

    async def _await_write_result(
        self, recording: SpooledRecording, write_future: Future[WriteResult], batch: ItemBatch
    ) -> None:
        write_result = await asyncio.wrap_future(write_future)
        self._thread_write_count -= 1
        recording.is_in_thread = False
        if recording.has_pending:
            self.schedule_write(recording)
        self._handle_write_result(write_result, batch)

    def _handle_write_result(self, write_result: WriteResult, batch: ItemBatch) -> None:
        if batch.is_small:
            self._is_disk_slow = write_result.duration_s > SLOW_WRITE_S
        self.backlog.adjust_pending_bytes(-batch.memory_bytes)
        if write_result.error is not None:
            self._report_failure(write_result.writer, write_result.error)
        if write_result.end_item is not None:
            self._start_task(self._file_cassette(write_result.writer, write_result.end_item))

    async def _file_cassette(self, writer: SpoolWriter, end_item: EndItem) -> None:
        loop = asyncio.get_running_loop()
        had_failed = writer.has_failed
        self.settled_count += end_item.has_head
        try:
            filed_cassette = await loop.run_in_executor(
                self._filing_executor, writer.file_cassette, self._filer, end_item
            )
        except Exception as error:  # the outermost frame of this task
            if not had_failed:
                self._report_failure(writer, error)
            return
        if filed_cassette is not None:
            self._events.on_filed(writer.description, filed_cassette)

    def _start_task(self, coroutine: Coroutine[None, None, None]) -> None:
        """Start a task that `close` waits for."""
        task = asyncio.ensure_future(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _report_failure(self, writer: SpoolWriter, error: Exception) -> None:
        is_spool_error = isinstance(error, SpoolError)
        reason = (
            str(error) if is_spool_error else f"a fault in llm-proxy, please report it: {error!r}"
        )
        self._events.on_failed(writer.description, reason)


def _write_items(writer: SpoolWriter, items: list[RecordingItem]) -> WriteResult:
    started_at_s = time.monotonic()
    end_item = next((item for item in items if isinstance(item, EndItem)), None)
    error: Exception | None = None
    try:
        writer.write(items)
    except Exception as failure:  # the outermost frame of one write, in either thread
        writer.has_failed = True
        error = failure
    return WriteResult(writer, end_item, error, time.monotonic() - started_at_s)
