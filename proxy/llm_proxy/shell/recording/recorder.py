"""Records exchanges while they run, without delaying clients.

    event loop                                       filing thread
    ----------                                       -------------
    start, head,          10 ms later:               at the end:
    read, end        ──▶  key, decode, redact,  ──▶  spool to cassette
    (append to a list)    append to the spool
                          (the large and the slow in a spooling thread)

Clients come first: what arrives goes on at once; it is written once that is done, and with pauses
for what comes meanwhile.  What a client has had for 50 ms survives the death of this process.

An append takes some microseconds, and on a busy machine a thread may have to wait for its turn
much longer than that.  So small ones are done on the event loop, which has its turn; large ones,
and all of them while the disk is slow, go to a thread, so that no stream waits for them.  Trouble
with the disk never reaches the client: the recording ends where it could be kept up, which is said
once and remembered for the exit code.
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
from llm_proxy.shell.recording.spool_writer import EndItem, Item, SpoolWriter, StartItem
from llm_proxy.shell.recording.spooled_recording import ItemBatch, SpooledRecording
from llm_proxy.take_numbers import RequestCounter

log: Final = logging.getLogger("llm_proxy")

AFTER: Final = 0.01
"""Seconds from the arrival of something to its hand-over."""
SLOW: Final = 0.1
"""Seconds for such a write, beyond which the disk is taken for slow until it was faster again."""
_STRETCH: Final = 0.0005
"""Seconds of work on the event loop after which everybody else has a turn."""
_LAST: Final = 30.0
"""Seconds without any progress, at the end, after which the disk is given up."""
_MOMENT: Final = 0.1
"""Seconds for which a run does not begin, while the library is looked through."""
_MANY: Final = 20
"""Recordings that are worth a line while somebody waits for them to be filed."""


@dataclass(frozen=True, slots=True)
class RecorderEvents:
    """Who is told, on the event loop, what became of the recording of a request."""

    on_filed: Callable[[str, FiledCassette], None]
    on_failed: Callable[[str, str], None]


@dataclass(frozen=True, slots=True)
class WriteResult:
    """What became of the writing of some items of one recording."""

    writer: SpoolWriter
    end: EndItem | None
    """There, once nothing more will come."""
    error: Exception | None
    """There, when it could be kept up no longer."""
    duration: float
    """Seconds."""


class SpoolRecorder:
    """Starts recordings and sees them into the library."""

    def __init__(
        self, library: Library, spool_folder: Path, events: RecorderEvents, *, renew: bool
    ) -> None:
        self._root = str(library.root.absolute())
        self._folder = spool_folder
        self._events = events
        self._files = CassetteFiler(library, renew=renew)
        self._request_counter = RequestCounter()
        self._serial = itertools.count(1)
        self._spool_lock = ThreadPoolExecutor(1, "spooling")
        self._filing_lock = ThreadPoolExecutor(1, "filing")
        self._scan_task = self._filing_lock.submit(self._files.scan_existing)
        """What is filed waits for it; clients do not."""
        self._pending: deque[SpooledRecording] = deque()
        self._thread_writes = 0
        """Batches that are under way there; those that follow them must, too."""
        self._slow_writes = False
        self._running: set[asyncio.Future[None]] = set()
        self.backlog = Backlog()
        self.settled_event = 0
        """Recordings of answers that are filed, left out for another attempt, or lost aloud."""
        self.disk_hangs = False
        """Whether `close` gave up on a disk: a thread of ours waits for it, perhaps for ever."""

    async def wait_until_scanned(self) -> None:
        """Wait until it is known what the library holds, a moment at most.

        Where that takes longer, what others put there in the meantime is taken for older.
        """
        looking = asyncio.wrap_future(self._scan_task)
        done, _ = await asyncio.wait({looking}, timeout=_MOMENT)
        for future in done:
            future.result()

    def start(self, routed: RoutedRequest, take: int | None = None) -> SpooledRecording:
        """Take down this call as its key's next take of the run, or as take number `take`."""
        return SpooledRecording(self, StartItem(routed, take))

    def writer(self) -> SpoolWriter:
        """The writer of a new spool."""
        name = f"{os.getpid()}-{next(self._serial)}.spool"
        return SpoolWriter(self._folder, name, self._root, self._request_counter)

    def reset(self, session: str) -> None:
        """Number the takes of this session from 1 again, beginning with the next request."""
        self._write_all()
        if self._thread_writes:
            self._thread_writes += 1
            self._start_task(
                self._await_reset(
                    self._spool_lock.submit(self._request_counter.reset_session, session)
                )
            )
        else:
            self._request_counter.reset_session(session)

    async def _await_reset(self, work: Future[None]) -> None:
        await asyncio.wrap_future(work)
        self._thread_writes -= 1

    async def close(self) -> None:
        """See every recording into the library that has ended.  All of them must have."""
        self._write_all()
        if len(self._running) > _MANY:
            log.info("filing %d recordings", len(self._running))
        while self._running:
            done, _ = await asyncio.wait(
                self._running, timeout=_LAST, return_when=asyncio.FIRST_COMPLETED
            )
            if not done:
                self._abandon()
                break
            self._write_all()
        for threads in (self._spool_lock, self._filing_lock):
            threads.shutdown(wait=not self._running, cancel_futures=True)

    def _abandon(self) -> None:
        """A disk that hangs does not keep us for ever; what it has is found by `recover`."""
        self.disk_hangs = True
        why = f"the disk took nothing for {_LAST:g} s; what it has is in {self._folder}"
        for task in self._running:
            task.cancel()
            self._events.on_failed("a recording", f"{why}: llm-proxy recover")

    def schedule_write(self, recording: SpooledRecording) -> None:
        """A recording has something to write, once every client has had its turn."""
        self._pending.append(recording)
        if len(self._pending) == 1:
            asyncio.get_running_loop().call_later(AFTER, self._write_pending)

    def _write_pending(self) -> None:
        """Write what came, in the order of its coming, until others should have their turn."""
        loop = asyncio.get_running_loop()
        until = loop.time() + _STRETCH
        while self._pending:
            self._write_recording(self._pending.popleft())
            if self._pending and loop.time() > until:
                loop.call_soon(self._write_pending)
                return

    def _write_all(self) -> None:
        while self._pending:
            self._write_recording(self._pending.popleft())

    def _write_recording(self, recording: SpooledRecording) -> None:
        """Write what came of one recording: here, or where it holds up nobody."""
        if recording.in_thread:  # what came since goes along when that is done
            return
        batch = recording.take_pending()
        if self._thread_writes == 0 and not self._slow_writes and batch.is_small:
            self._handle_result(_write_items(recording.writer, batch.items), batch)
        else:
            self._thread_writes += 1
            recording.in_thread = True
            work = self._spool_lock.submit(_write_items, recording.writer, batch.items)
            self._start_task(self._handle_result_later(recording, work, batch))

    async def _handle_result_later(
        self, recording: SpooledRecording, work: Future[WriteResult], batch: ItemBatch
    ) -> None:
        written = await asyncio.wrap_future(work)
        self._thread_writes -= 1
        recording.in_thread = False
        if recording.has_pending:
            self.schedule_write(recording)
        self._handle_result(written, batch)

    def _handle_result(self, write_result: WriteResult, batch: ItemBatch) -> None:
        if batch.is_small:
            self._slow_writes = write_result.duration > SLOW
        self.backlog.add(-batch.size)
        if write_result.error is not None:
            self._report_failure(write_result.writer, write_result.error)
        if write_result.end is not None:
            self._start_task(self._file_cassette(write_result.writer, write_result.end))

    async def _file_cassette(self, writer: SpoolWriter, end: EndItem) -> None:
        loop = asyncio.get_running_loop()
        flag = writer.on_failed
        self.settled_event += end.is_responded
        try:
            filed = await loop.run_in_executor(
                self._filing_lock, writer.file_cassette, self._files, end
            )
        except Exception as error:  # the outermost frame of this task
            if not flag:
                self._report_failure(writer, error)
            return
        if filed is not None:
            self._events.on_filed(writer.description, filed)

    def _start_task(self, work: Coroutine[None, None, None]) -> None:
        """Do something that `close` waits for."""
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    def _report_failure(self, writer: SpoolWriter, error: Exception) -> None:
        ours = isinstance(error, SpoolError)
        why = str(error) if ours else f"a fault in llm-proxy, please report it: {error!r}"
        self._events.on_failed(writer.description, why)


def _write_items(writer: SpoolWriter, items: list[Item]) -> WriteResult:
    began = time.monotonic()
    end = next((item for item in items if isinstance(item, EndItem)), None)
    error: Exception | None = None
    try:
        writer.write(items)
    except Exception as failure:  # the outermost frame of one recording's turn, in whatever thread
        writer.on_failed = True
        error = failure
    return WriteResult(writer, end, error, time.monotonic() - began)
