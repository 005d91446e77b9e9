"""Takes down exchanges while they run, without making anybody wait.

    event loop                                      filing thread
    ----------                                      -------------
    start, head,        2 ms later: key, decode, ──▶ at the end: spool to cassette
    read, end       ──▶ redact, append to the
    (append to a list)  spool

An append takes some microseconds, less than handing it to a thread would, but the key of a long
request takes a millisecond.  Clients come first: for as long as we work, one that shares our
processor does not see what it was sent.  What a client has had for 2 ms survives the death of
this process.  Trouble with the disk never reaches the client: the recording is given up, said
once, and remembered for the exit code.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from llm_proxy import redaction
from llm_proxy.cassette import Meta, spool
from llm_proxy.errors import SpoolError
from llm_proxy.exchange import Ending, Head, Read
from llm_proxy.matching import KEY_RULES
from llm_proxy.routing import Call
from llm_proxy.shell.decoding import CodingError, Decoder, decoded_head
from llm_proxy.shell.filing import Filed, Files
from llm_proxy.shell.library import Library
from llm_proxy.shell.spooling import SpoolFile
from llm_proxy.takes import Ordinals
from llm_proxy.version import __version__

AFTER: Final = 0.002
"""Seconds from the arrival of something to its place in the spool."""


@dataclass(frozen=True, slots=True)
class _StartItem:
    take: int | None
    """None is the next take of the key in this run."""


@dataclass(frozen=True, slots=True)
class _HeadItem:
    at: float
    head: Head


@dataclass(frozen=True, slots=True)
class _EndItem:
    at: float
    ending: Ending


_Item = _StartItem | _HeadItem | Read | _EndItem


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
        self._dirty: list[SpooledRecording] = []
        self._running: set[asyncio.Future[None]] = set()

    def start(self, call: Call, take: int | None = None) -> SpooledRecording:
        """Take down this call as its key's next take of the run, or as take number `take`."""
        name = f"{os.getpid()}-{next(self._serial)}.spool"
        return SpooledRecording(self, _Tape(call, self._root, name, self._ordinals), call, take)

    def reset(self, session: str) -> None:
        """Number the takes of this session from 1 again."""
        self._flush()
        self._ordinals.reset(session)

    async def close(self) -> None:
        """See every recording into the library that has ended.  All of them must have."""
        self._flush()
        while self._running:
            await asyncio.wait(self._running)
        self._filing.shutdown()

    def touched(self, recording: SpooledRecording) -> None:
        """A recording has something to write, once every client has had its turn."""
        self._dirty.append(recording)
        if len(self._dirty) == 1:
            asyncio.get_running_loop().call_later(AFTER, self._flush)

    def _flush(self) -> None:
        """Append what came to the spools."""
        dirty, self._dirty = self._dirty, []
        for recording in dirty:
            try:
                end = recording.tape.write(recording.drain(), self._folder)
            except Exception as error:  # the outermost frame of this callback
                self._failed(recording, error)
            else:
                if end is not None:
                    task = asyncio.ensure_future(self._file(recording, end))
                    self._running.add(task)
                    task.add_done_callback(self._running.discard)

    async def _file(self, recording: SpooledRecording, end: _EndItem) -> None:
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

    def __init__(self, recorder: Recorder, tape: _Tape, call: Call, take: int | None) -> None:
        self.call = call
        self.tape = tape
        self._recorder = recorder
        self._items: list[_Item] = []
        self._add(_StartItem(take))

    def head(self, at: float, head: Head) -> None:
        """The head arrived, at `at` ms."""
        self._add(_HeadItem(at, head))

    def read(self, read: Read) -> None:
        """Bytes arrived."""
        self._add(read)

    def end(self, at: float, ending: Ending) -> None:
        """Nothing more will come: write the cassette."""
        self._add(_EndItem(at, ending))

    def drain(self) -> list[_Item]:
        """What came since the last time."""
        items, self._items = self._items, []
        return items

    def _add(self, item: _Item) -> None:
        self._items.append(item)
        if len(self._items) == 1:
            self._recorder.touched(self)


class _Tape:
    """One exchange being taken down: its spool."""

    def __init__(self, call: Call, library: str, name: str, ordinals: Ordinals) -> None:
        self._call = call
        self._library = library
        self._name = name
        self._ordinals = ordinals
        self._opening = b""
        self._redactor = redaction.Redactor(())
        self._decoder: Decoder | None = None
        self._broken: Ending | None = None
        self._file: SpoolFile | None = None
        self._failed = False
        self._last = -1.0
        """When the read in the last line arrived, in ms."""

    def write(self, items: list[_Item], folder: Path) -> _EndItem | None:
        """Append to the spool; gives the end once it came.  Raises once: a gap is no recording."""
        if self._failed:
            return None
        try:
            return self._write(items, folder)
        except Exception:
            self._failed = True
            if self._file is not None:
                self._file.release()
            raise

    def file(self, files: Files, end: _EndItem) -> Filed | None:
        """Make the cassette and let go of the spool."""
        if self._file is None:
            return None
        ending = end.ending
        if ending is Ending.CLEAN and self._broken is not None:
            ending = self._broken
        try:
            filed = files.file(self._file.path, ending, end.at, self._redactor.count)
        except Exception:
            self._file.release()
            raise
        self._file.discard()
        return filed

    def _write(self, items: list[_Item], folder: Path) -> _EndItem | None:
        lines: list[bytes] = []
        end: _EndItem | None = None
        for item in items:
            match item:
                case _StartItem(take):
                    self._start(take)
                case _HeadItem(at, head):
                    lines += self._head(at, head)
                case Read():
                    lines += map(self._line, self._read(item))
                case _EndItem():
                    self._end_coding()
                    lines += map(self._line, self._redactor.close())
                    end = item
        if lines:
            if self._file is None:
                self._file = SpoolFile(folder, self._name)
            self._file.append(b"".join(lines))
        return end

    def _start(self, take: int | None) -> None:
        call = self._call
        number = take if take is not None else self._ordinals.next(call.session, call.key)
        target = spool.SpoolLine(1, self._library, number)
        self._opening = spool.opening(target, _meta(call), call.stored)
        self._redactor = redaction.Redactor(call.credentials)

    def _head(self, at: float, head: Head) -> list[bytes]:
        call = self._call
        stored, coding, self._decoder = decoded_head(head)
        headers = tuple(
            (name, self._redactor.text(value))
            for name, value in redaction.response_headers(stored.headers)
        )
        kept = Head(stored.status, stored.reason, headers, stored.framing, stored.length)
        framing = call.dialect.framing(call.request, kept)
        return [self._opening, spool.head(kept, at, framing, coding)]

    def _line(self, read: Read) -> bytes:
        """A read of which the redactor held back a part comes in two, of one time."""
        rest, self._last = read.at == self._last, read.at
        return spool.read(read, rest=rest)

    def _read(self, read: Read) -> list[Read]:
        if self._broken is not None:
            return []
        if self._decoder is not None:
            try:
                read = Read(read.at, self._decoder.decode(read.data))
            except CodingError:
                self._broken = Ending.MALFORMED
                return []
        return self._redactor.feed(read) if read.data else []

    def _end_coding(self) -> None:
        if self._decoder is None or self._broken is not None:
            return
        try:
            self._decoder.close()
        except CodingError:
            self._broken = Ending.MALFORMED


def _meta(call: Call) -> Meta:
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return Meta(
        tool=f"llm-proxy {__version__}",
        recorded=now,
        dialect=call.dialect.name,
        provider=call.provider,
        model=call.dialect.model(call.request),
        session=call.session,
        key=call.key,
        key_rules=KEY_RULES,
        redaction_rules=redaction.REDACTION_RULES,
    )
