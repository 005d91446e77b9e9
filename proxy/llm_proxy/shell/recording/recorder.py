"""Takes down exchanges while they run, without making anybody wait.

    event loop                                       filing thread
    ----------                                       -------------
    start, head,          10 ms later:               at the end:
    read, end        ──▶  key, decode, redact,  ──▶  spool to cassette
    (append to a list)    append to the spool

Clients come first: what arrives goes on at once; it is written once that is done, and with pauses
for what comes meanwhile.  What a client has had for some 20 ms survives the death of this process.

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
from llm_proxy.exchange import Ending, Head, Read, header
from llm_proxy.routing import Call
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.recording import backlog
from llm_proxy.shell.recording.backlog import Backlog
from llm_proxy.shell.recording.filing import Filed, Files
from llm_proxy.shell.recording.spool_writer import (
    EndItem,
    HeadItem,
    Item,
    LossItem,
    SpoolWriter,
    StartItem,
)
from llm_proxy.takes import Ordinals

log: Final = logging.getLogger("llm_proxy")

AFTER: Final = 0.01
"""Seconds from the arrival of something to its hand-over."""
SMALL: Final = 128 * 1024
"""Bytes of requests and responses that are written on the event loop: less than a ms of work."""
SLOW: Final = 0.1
"""Seconds for such a write, beyond which the disk is taken for slow until it was faster again."""
_STRETCH: Final = 0.0005
"""Seconds of work on the event loop after which everybody else has a turn."""
_MANY: Final = 20
"""Recordings that are worth a line while somebody waits for them to be filed."""


@dataclass(frozen=True, slots=True)
class RecorderEvents:
    """Who is told, on the event loop, what became of the recording of a request."""

    filed: Callable[[str, Filed], None]
    failed: Callable[[str, str], None]


@dataclass(frozen=True, slots=True)
class Written:
    """What became of the writing of some items of one recording."""

    writer: SpoolWriter
    end: EndItem | None
    """There, once nothing more will come."""
    error: Exception | None
    """There, when it could be kept up no longer."""
    took: float
    """Seconds."""


class Recorder:
    """Starts recordings and sees them into the library."""

    def __init__(
        self, library: Library, spool_folder: Path, events: RecorderEvents, *, renew: bool
    ) -> None:
        self._root = str(library.root.absolute())
        self._folder = spool_folder
        self._events = events
        self._files = Files(library, renew=renew)
        self._ordinals = Ordinals()
        self._serial = itertools.count(1)
        self._spooling = ThreadPoolExecutor(1, "spooling")
        self._filing = ThreadPoolExecutor(1, "filing")
        self._dirty: deque[SpooledRecording] = deque()
        self._in_thread = 0
        """Batches that are under way there; those that follow them must, too."""
        self._slow = False
        self._running: set[asyncio.Future[None]] = set()
        self.backlog = Backlog()

    def start(self, call: Call, take: int | None = None) -> SpooledRecording:
        """Take down this call as its key's next take of the run, or as take number `take`."""
        return SpooledRecording(self, StartItem(call, take))

    def writer(self) -> SpoolWriter:
        """The writer of a new spool."""
        name = f"{os.getpid()}-{next(self._serial)}.spool"
        return SpoolWriter(self._folder, name, self._root, self._ordinals)

    def reset(self, session: str) -> None:
        """Number the takes of this session from 1 again, beginning with the next request."""
        self._write_all()
        if self._in_thread:
            self._spooling.submit(self._ordinals.reset, session)
        else:
            self._ordinals.reset(session)

    async def close(self) -> None:
        """See every recording into the library that has ended.  All of them must have."""
        self._write_all()
        if len(self._running) > _MANY:
            log.info("filing %d recordings", len(self._running))
        while self._running:
            await asyncio.wait(self._running)
        self._spooling.shutdown()
        self._filing.shutdown()

    def touched(self, recording: SpooledRecording) -> None:
        """A recording has something to write, once every client has had its turn."""
        self._dirty.append(recording)
        if len(self._dirty) == 1:
            asyncio.get_running_loop().call_later(AFTER, self._write_some)

    def _write_some(self) -> None:
        """Write what came, in the order of its coming, until others should have their turn."""
        loop = asyncio.get_running_loop()
        until = loop.time() + _STRETCH
        while self._dirty:
            self._write(self._dirty.popleft())
            if self._dirty and loop.time() > until:
                loop.call_soon(self._write_some)
                return

    def _write_all(self) -> None:
        while self._dirty:
            self._write(self._dirty.popleft())

    def _write(self, recording: SpooledRecording) -> None:
        """Write what came of one recording: here, or where it holds up nobody."""
        items = recording.drain()
        size = sum(map(_size, items))
        small = size <= SMALL and _request_size(items[0]) <= SMALL and not recording.is_coded
        if self._in_thread == 0 and not self._slow and small:
            self._settle(_written(recording.writer, items), size)
        else:
            self._in_thread += 1
            work = self._spooling.submit(_written, recording.writer, items)
            self._follow(self._settle_later(work, size))

    async def _settle_later(self, work: Future[Written], size: int) -> None:
        written = await asyncio.wrap_future(work)
        self._in_thread -= 1
        self._settle(written, size)

    def _settle(self, it: Written, size: int) -> None:
        """See to what the writing of so many bytes brought to light."""
        self._slow = it.took > SLOW and size <= SMALL
        self.backlog.grow(-size)
        if it.error is not None:
            self._failed(it.writer, it.error)
        if it.end is not None:
            self._follow(self._file(it.writer, it.end))

    async def _file(self, writer: SpoolWriter, end: EndItem) -> None:
        loop = asyncio.get_running_loop()
        told = writer.failed
        try:
            filed = await loop.run_in_executor(self._filing, writer.file, self._files, end)
        except Exception as error:  # the outermost frame of this task
            if not told:
                self._failed(writer, error)
            return
        if filed is not None:
            self._events.filed(writer.what, filed)

    def _follow(self, work: Coroutine[None, None, None]) -> None:
        """Do something that `close` waits for."""
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    def _failed(self, writer: SpoolWriter, error: Exception) -> None:
        ours = isinstance(error, SpoolError)
        why = str(error) if ours else f"a fault in llm-proxy, please report it: {error!r}"
        self._events.failed(writer.what, why)


class SpooledRecording:
    """One exchange being taken down: the event loop's side."""

    def __init__(self, recorder: Recorder, start: StartItem) -> None:
        """As little as can be: the request has not been sent yet."""
        self._recorder = recorder
        self._writer: SpoolWriter | None = None
        self._items: list[Item] = [start]
        self._lost = False
        self.is_coded = False
        """Whether few bytes may become many: the upstream compresses, although asked not to."""
        recorder.touched(self)

    @property
    def writer(self) -> SpoolWriter:
        """What writes it down."""
        if self._writer is None:
            self._writer = self._recorder.writer()
        return self._writer

    def head(self, at: float, head: Head) -> None:
        """The head arrived, at `at` ms."""
        self.is_coded = header(head.headers, "content-encoding") is not None
        self._add(HeadItem(at, head))

    def read(self, read: Read) -> None:
        """Bytes arrived."""
        if not self._lost:
            self._recorder.backlog.grow(len(read.data))
            self._add(read)

    @property
    def keeps_up(self) -> bool:
        """Whether more may come."""
        return self._lost or self._recorder.backlog.has_room

    async def catch_up(self) -> None:
        """Wait until it keeps up, or is given up."""
        if not await self._recorder.backlog.room():
            self._lost = True
            self._add(
                LossItem(f"the disk takes longer than {backlog.PATIENCE:g} s for what arrived")
            )

    def end(self, at: float, ending: Ending) -> None:
        """Nothing more will come: write the cassette."""
        self._add(EndItem(at, ending))

    def drain(self) -> list[Item]:
        """What came since the last time."""
        items, self._items = self._items, []
        return items

    def _add(self, item: Item) -> None:
        self._items.append(item)
        if len(self._items) == 1:
            self._recorder.touched(self)


def _size(item: Item) -> int:
    """Bytes of an answer that an item brings."""
    match item:
        case Read(_, data):
            return len(data)
        case _:
            return 0


def _request_size(item: Item) -> int:
    """Bytes of the request that a recording begins with."""
    return len(item.call.request.body) if isinstance(item, StartItem) else 0


def _written(writer: SpoolWriter, items: list[Item]) -> Written:
    began = time.monotonic()
    end = next((item for item in items if isinstance(item, EndItem)), None)
    error: Exception | None = None
    try:
        writer.write(items)
    except Exception as failure:  # the outermost frame of one recording's turn, in whatever thread
        writer.failed = True
        error = failure
    return Written(writer, end, error, time.monotonic() - began)
