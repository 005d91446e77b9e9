"""Takes down exchanges while they run, without making anybody wait.

    event loop                                      filing thread
    ----------                                      -------------
    start, head,        10 ms later:                at the end:
    read, end       ──▶ key, decode, redact,   ──▶  spool to cassette
    (append to a list)  append to the spool

An append takes some microseconds, less than handing it to a thread would; the key of a long
request takes a millisecond.  Clients come first: while we work, nothing goes out, and one that
shares our processor does not even see what did.  So the work waits until what came has gone on,
and pauses for what comes meanwhile.  What a client has had for longer survives the death of this
process.  Trouble with the disk never reaches the client: the recording is given up, said once,
and remembered for the exit code.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from llm_proxy.errors import SpoolError
from llm_proxy.exchange import Ending, Head, Read
from llm_proxy.routing import Call
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.recording.filing import Filed, Files
from llm_proxy.shell.recording.tape import EndItem, HeadItem, Item, StartItem, Tape
from llm_proxy.takes import Ordinals

AFTER: Final = 0.01
"""Seconds from the arrival of something to its place in the spool."""

_STRETCH: Final = 0.0005
"""Seconds after which work pauses for one turn of the loop."""


@dataclass(frozen=True, slots=True)
class RecorderEvents:
    """Who is told, on the event loop, what became of a recording."""

    filed: Callable[[Call, Filed], None]
    failed: Callable[[Call, str], None]


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
        self._filing = ThreadPoolExecutor(1, "filing")
        self._dirty: deque[SpooledRecording] = deque()
        self._running: set[asyncio.Future[None]] = set()

    def start(self, call: Call, take: int | None = None) -> SpooledRecording:
        """Take down this call as its key's next take of the run, or as take number `take`."""
        name = f"{os.getpid()}-{next(self._serial)}.spool"
        return SpooledRecording(self, Tape(call, self._root, name, self._ordinals), call, take)

    def reset(self, session: str) -> None:
        """Number the takes of this session from 1 again."""
        self._append_all()
        self._ordinals.reset(session)

    async def close(self) -> None:
        """See every recording into the library that has ended.  All of them must have."""
        self._append_all()
        while self._running:
            await asyncio.wait(self._running)
        self._filing.shutdown()

    def touched(self, recording: SpooledRecording) -> None:
        """A recording has something to write, once every client has had its turn."""
        self._dirty.append(recording)
        if len(self._dirty) == 1:
            asyncio.get_running_loop().call_later(AFTER, self._flush)

    def _flush(self) -> None:
        """Append what came to the spools, in the order of its coming."""
        loop = asyncio.get_running_loop()
        until = loop.time() + _STRETCH
        while self._dirty:
            self._append(self._dirty.popleft())
            if self._dirty and loop.time() > until:
                loop.call_soon(self._flush)
                return

    def _append_all(self) -> None:
        while self._dirty:
            self._append(self._dirty.popleft())

    def _append(self, recording: SpooledRecording) -> None:
        try:
            end = recording.tape.write(recording.drain(), self._folder)
        except Exception as error:  # the outermost frame of a callback
            self._failed(recording, error)
            return
        if end is not None:
            task = asyncio.ensure_future(self._file(recording, end))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def _file(self, recording: SpooledRecording, end: EndItem) -> None:
        loop = asyncio.get_running_loop()
        tape = recording.tape
        try:
            filed = await loop.run_in_executor(self._filing, tape.file, self._files, end)
        except Exception as error:  # the outermost frame of this task
            self._failed(recording, error)
            return
        if filed is not None:
            self._events.filed(recording.call, filed)

    def _failed(self, recording: SpooledRecording, error: Exception) -> None:
        ours = isinstance(error, SpoolError)
        why = str(error) if ours else f"a fault in llm-proxy, please report it: {error!r}"
        self._events.failed(recording.call, why)


class SpooledRecording:
    """One exchange being taken down: the event loop's side."""

    def __init__(self, recorder: Recorder, tape: Tape, call: Call, take: int | None) -> None:
        self.call = call
        self.tape = tape
        self._recorder = recorder
        self._items: list[Item] = []
        self._add(StartItem(take))

    def head(self, at: float, head: Head) -> None:
        """The head arrived, at `at` ms."""
        self._add(HeadItem(at, head))

    def read(self, read: Read) -> None:
        """Bytes arrived."""
        self._add(read)

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
