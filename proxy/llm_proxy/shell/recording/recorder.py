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
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from llm_proxy import framing, matching, redaction
from llm_proxy.cassette import CassetteMeta, StoredRequest, spool
from llm_proxy.cassette.model import encode_line, printable_model
from llm_proxy.display import count_with_noun
from llm_proxy.errors import SecretNotReplaced, SpoolError
from llm_proxy.exchange import Ending, Read, ResponseHead, header_value
from llm_proxy.framing import eventstream
from llm_proxy.matching import KEY_RULES_VERSION
from llm_proxy.redaction.frames import FrameRedactor
from llm_proxy.routing import RoutedRequest
from llm_proxy.shell.content_decoders import (
    ContentDecoder,
    InvalidContentCoding,
    strip_content_coding,
)
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.library.library_takes import LibraryTake
from llm_proxy.shell.recording.cassette_filer import (
    CassetteFiler,
    FiledCassette,
    SessionHold,
    timestamp_now,
)
from llm_proxy.shell.recording.spooling import MAX_BODY_BYTES, SpoolFile
from llm_proxy.take_numbers import RequestCounter
from llm_proxy.turns import Json
from llm_proxy.version import __version__

log: Final = logging.getLogger("llm_proxy")

MAX_BACKLOG_BYTES: Final = 16 * 1024 * 1024
"""Bytes of all recordings together that may wait for the disk; beyond that upstreams are paused."""
MAX_WAIT_S: Final = 5.0
"""Maximum pause in seconds; then the recordings are given up, and their clients continue."""
MAX_SMALL_BYTES: Final = 64 * 1024
"""Maximum bytes of a response in one write on the event loop: less than a ms of work."""
MAX_SMALL_FRAMED_BYTES: Final = 16 * 1024
"""The same for an AWS event stream: each frame is parsed, which takes 5 to 10 µs."""
MAX_SMALL_REQUEST_BYTES: Final = 16 * 1024
"""Maximum bytes of a request body whose key is computed on the event loop."""
WRITE_DELAY_S: Final = 0.01
"""Seconds from the arrival of an item to its write."""
SLOW_WRITE_S: Final = 0.1
"""Duration of a small write beyond which the disk counts as slow, until one is faster again."""
_MAX_LOOP_WORK_S: Final = 0.0005
"""Seconds of work on the event loop after which other tasks get to run."""
_ENDING_WAIT_S: Final = 0.1
"""Seconds for which a request waits for the end of a recording of an equal one: SDKs leave at the
provider's `[DONE]`, and may send the next request before the HTTP body has ended."""
_CLOSE_TIMEOUT_S: Final = 30.0
"""Seconds without progress in `close` after which the disk is given up."""
_MAX_SCAN_WAIT_S: Final = 0.1
"""Maximum seconds by which the scan of the library delays the start of a run."""
_MIN_LOGGED_FILINGS: Final = 20
"""Number of unfiled recordings in `close` beyond which it is logged."""
_READ_OVERHEAD_BYTES: Final = 200
"""Memory overhead of one read, in bytes."""
_WRITE_BYTES: Final = 1024 * 1024
"""Approximate bytes of the spool that are written at a time."""

_Item = Callable[[], list[bytes]]
"""One event of a recording: encodes it as lines of the spool, and may raise `SpoolError`."""


_WriteResult = tuple[Exception | None, float]
"""The error of a write, if any, and its duration in seconds."""


@dataclass(frozen=True, slots=True)
class RecorderEvents:
    """Callbacks for the results of recordings; called on the event loop.

    The first argument of `on_filed` and `on_failed` describes the request; the second is the
    cassette, or the reason for the failure.
    """

    on_filed: Callable[[str, FiledCassette], None]
    on_failed: Callable[[str, str], None]
    on_moved: Callable[[Mapping[Path, Path | None]], None] = lambda _: None
    """Gets the new paths of cassettes, None for a deleted one."""


@dataclass(frozen=True, slots=True)
class _ItemBatch:
    """Items of one recording that are written together."""

    items: list[_Item]
    memory_bytes: int
    """Approximate memory of the items."""
    is_small: bool
    """Whether it may be written on the event loop."""
    end: tuple[float, Ending] | None
    """When, in ms, and how the exchange ended, if the batch contains that."""


class SpoolWriter:
    """Encodes what happens in one exchange, and appends it to a spool.

    One thread at a time uses it.  It computes the key, decodes and redacts.
    """

    def __init__(
        self,
        recorder: SpoolRecorder,
        routed: RoutedRequest,
        operator_secrets: frozenset[bytes],
        take: int | None,
    ) -> None:
        """Does as little work as possible: it runs on the event loop."""
        self.description = "a request"
        """The request in log messages: `POST /v1/chat/completions`."""
        self.has_failed = False
        """Whether writing failed; nothing more is written then."""
        self._recorder = recorder
        self._routed: RoutedRequest | None = routed
        """None once the head is written: a large request is not kept while its response streams."""
        self._take = take or 0
        """The take number; 0 until it is assigned."""
        self._logical_request = routed.logical_request
        self._operator_secrets = operator_secrets
        self._opening = b""
        self._has_head = False
        """Whether the head is encoded, and with it the opening."""
        self._file: SpoolFile | None = None
        """Created once there is a response."""
        self._redactor = redaction.Redactor(redaction.NO_REDACTION.finder())
        self._body_redactor: redaction.Redactor | FrameRedactor = self._redactor
        """The redactor of the body; its first bytes select it, since content types may be wrong."""
        self._redaction: redaction.ResponseRedaction | None = None
        """The redaction of the finished cassette."""
        self._has_body_bytes = False
        """Whether any byte of the body was decoded."""
        self._decoder: ContentDecoder | None = None
        self._is_undecodable = False
        self._encoded_bytes = 0

    def write(self, items: Iterable[_Item]) -> None:
        """Append to the spool.

        Raises `SpoolError` if the disk fails, the body is too large, or the recording is given up.
        """
        if self.has_failed:
            return
        lines: list[bytes] = []
        batch_bytes = 0
        for item in items:
            try:
                encoded = item()
            except SpoolError:
                self._append_lines(lines)
                raise
            lines += encoded
            batch_bytes += sum(map(len, encoded))
            if batch_bytes > _WRITE_BYTES:
                self._append_lines(lines)
                lines, batch_bytes = [], 0
        self._append_lines(lines)

    def file_cassette(
        self, filer: CassetteFiler, hold: SessionHold | None, at_ms: float, ending: Ending
    ) -> FiledCassette | None:
        """File the spool of an exchange that has ended as a cassette, and delete it.

        None if no response had begun, or another attempt of the logical request or the older
        takes are kept instead.

        Raises `SpoolError`; the spool is kept then, unless it holds a secret that cannot be
        replaced.
        """
        if self._file is None:
            return None
        spool_end = self._spool_end(at_ms, ending)
        try:
            filed = filer.file_spool(
                self._file.path, spool_end, self._logical_request, self._redaction, hold
            )
        except SecretNotReplaced:
            self._file.discard()
            raise
        except Exception:
            self._file.close_and_keep()
            raise
        self._file.discard()
        return filed

    def encode_opening(self) -> list[bytes]:
        """Encode the request, which is written with the head."""
        routed = self._routed
        assert routed is not None  # noqa: S101 # this comes before the head
        self._take = self._take or self._recorder.request_counter.next_ordinal(
            routed.session, routed.key, routed.logical_request
        )
        stored, model = routed.stored_request, routed.model
        operator_secrets = redaction.operator_secrets(self._operator_secrets)
        if operator_secrets:
            stored = redaction.redact_known(stored, redaction.NO_REDACTION.finder(operator_secrets))
            if stored is not routed.stored_request:
                model = routed.dialect.model(stored)
        self.description = f"{stored.method} {stored.path}"
        self._warn_of_keyed_secrets(stored)
        meta = CassetteMeta(
            recording_tool=f"llm-proxy {__version__}",
            recorded_at=timestamp_now(),
            dialect=routed.dialect.name,
            provider=routed.provider,
            model=printable_model(model),
            session=routed.session,
            key=routed.key,
            key_rules_version=KEY_RULES_VERSION,
            redaction_rules_version=redaction.REDACTION_RULES_VERSION,
            match_rules=routed.match_rules.rule_texts,
        )
        target = spool.SpoolTargetLine(1, self._recorder.library_path, self._take)
        self._opening = spool.encode_opening(target, meta, stored)
        secrets = {**operator_secrets, **routed.known_secrets}
        rules = routed.match_rules.redaction
        self._redaction = redaction.ResponseRedaction(
            rules, rules.finder(secrets), follows_stream=True
        )
        self._redactor = self._body_redactor = redaction.Redactor(self._redaction.finder)
        return []

    def _warn_of_keyed_secrets(self, stored: StoredRequest) -> None:
        """Warn of secrets that are part of the key: with others, the request finds no cassette."""
        routed = self._routed
        assert routed is not None  # noqa: S101 # the head has not arrived yet

        def key_body() -> Json:
            return matching.normalized_document(
                routed.provider, stored, routed.match_rules
            ).document.body

        for place in redaction.keyed_secret_places(stored, key_body):
            if place not in self._recorder.warned_places:
                self._recorder.warned_places.add(place)
                log.warning(
                    "%s: %s; the secret is not stored, but the key depends on the secret: a "
                    "replay matches only requests with the same secret",
                    self.description,
                    place,
                )

    def encode_head(self, at_ms: float, head: ResponseHead) -> list[bytes]:
        """Encode the response head, behind the opening."""
        routed, opening = self._routed, self._opening
        assert routed is not None  # noqa: S101 # there is one head
        head, coding, self._decoder = strip_content_coding(head)
        headers = tuple(
            (name, self._redactor.redact_latin1(value))
            for name, value in redaction.storable_response_headers(head.headers)
        )
        reason = self._redactor.redact_latin1(head.reason)
        stored_head = replace(head, reason=reason, headers=headers)
        codec = routed.dialect.codec_name(routed.decompressed_request, stored_head)
        self._routed, self._opening, self._has_head = None, b"", True
        return [opening, spool.encode_head(stored_head, at_ms, codec, coding)]

    def encode_read(self, read: Read) -> list[bytes]:
        """Encode what is known to hold no secret of the bytes that arrived."""
        return self._encode_pieces(self._redact_read(read))

    def encode_end(self, at_ms: float, ending: Ending) -> list[bytes]:
        """Encode the rest of the body, and the end."""
        if self._decoder is not None and not self._is_undecodable:
            try:
                self._decoder.raise_if_truncated()
            except InvalidContentCoding:
                self._is_undecodable = True
        lines = self._encode_pieces(self._body_redactor.flush())
        return [*lines, encode_line(self._spool_end(at_ms, ending))] if self._has_head else []

    def give_up(self) -> list[bytes]:
        """End the recording here: raises `SpoolError`."""
        raise SpoolError(
            f"the disk is too slow: received data was not written within {MAX_WAIT_S:g} s"
        )

    def _append_lines(self, lines: list[bytes]) -> None:
        if lines:
            self._file = self._file or self._recorder.create_spool()
            self._file.append(b"".join(lines))

    def _redact_read(self, read: Read) -> Iterator[redaction.RedactedPiece]:
        if self._is_undecodable:
            return
        received = read.received_bytes
        try:
            for data in self._decoder.decode(received) if self._decoder else [received]:
                if not data:
                    continue
                if not self._has_body_bytes and eventstream.may_begin_frame(data):
                    self._body_redactor = FrameRedactor(self._redactor)
                self._has_body_bytes = True
                yield from self._body_redactor.feed(Read(read.at_ms, data))
        except InvalidContentCoding:
            self._is_undecodable = True

    def _encode_pieces(self, pieces: Iterable[redaction.RedactedPiece]) -> list[bytes]:
        lines: list[bytes] = []
        for piece in pieces:  # a lazy iterator: stop before a bomb is decoded
            lines.append(spool.encode_read(piece, is_continuation=piece.is_continuation))
            self._encoded_bytes += len(lines[-1])
            if self._encoded_bytes > MAX_BODY_BYTES * 4 // 3:
                raise SpoolError(
                    f"the response is larger than the recording limit of {MAX_BODY_BYTES:,} bytes"
                )
        return lines

    def _spool_end(self, at_ms: float, ending: Ending) -> spool.SpoolEnd:
        if self.has_failed:
            ending = Ending.RECORDER_ERROR
        elif ending is Ending.CLEAN and self._is_undecodable:
            ending = Ending.MALFORMED
        return spool.SpoolEnd(ending, at_ms, self._redactor.replaced_count)


class SpooledRecording:
    """One exchange that is recorded: queues, on the event loop, what its writer encodes later.

    A recording ends where it fails, because one with a gap would be useless: it is filed up to
    there, with the ending `recorder_error`.
    """

    def __init__(
        self,
        recorder: SpoolRecorder,
        writer: SpoolWriter,
        routed: RoutedRequest,
        hold: SessionHold | None,
    ) -> None:
        self.writer = writer
        self.session = routed.session
        self.hold = hold
        """The hold of its session when it began."""
        self._recorder = recorder
        self._items: list[_Item] = [self.writer.encode_opening]
        """What waits to be written."""
        self._pending_bytes = 0
        """Approximate memory of the items."""
        self._max_small_bytes = MAX_SMALL_BYTES
        """Maximum bytes of a small batch of this recording."""
        self._has_large_request = len(routed.request.body) > MAX_SMALL_REQUEST_BYTES
        """Whether a large request is among the items."""
        self._has_content_coding = False
        """Whether the upstream compresses, although not requested: few bytes may become many."""
        self._is_given_up = False
        self._end: tuple[float, Ending] | None = None
        """When, in ms, and how the exchange ended, if that is among the items."""
        self.has_head = False
        """Whether a response head has arrived."""
        self.is_in_thread = False
        """Whether a batch of this recording is being written in the spooling thread."""
        self._end_event = asyncio.Event()
        self.filed_path: asyncio.Future[Path | None] = asyncio.Future()
        """The cassette, once it is filed; None if there is none, or it may not be replayed."""
        self._recorder.schedule_write(self)

    def record_head(self, at: float, head: ResponseHead) -> None:
        """Record the head, which arrived at `at` ms."""
        self.has_head = True
        self._has_content_coding = header_value(head.headers, "content-encoding") is not None
        content_type = header_value(head.headers, "content-type")
        if framing.codec_name_for_content_type(content_type) == eventstream.CODEC_NAME:
            self._max_small_bytes = min(MAX_SMALL_BYTES, MAX_SMALL_FRAMED_BYTES)
        self._add_item(partial(self.writer.encode_head, at, head))

    def record_read(self, read: Read) -> None:
        """Record bytes that arrived."""
        if not self._is_given_up:
            memory_bytes = len(read.received_bytes) + _READ_OVERHEAD_BYTES
            self._pending_bytes += memory_bytes
            self._recorder.adjust_pending_bytes(memory_bytes)
            self._add_item(partial(self.writer.encode_read, read))

    @property
    def has_capacity(self) -> bool:
        """Whether the disk keeps up, or the recording was given up."""
        return self._is_given_up or self._recorder.has_capacity

    async def wait_for_capacity(self) -> None:
        """Wait until the disk has caught up, or give the recording up."""
        if not await self._recorder.wait_for_capacity():
            self._is_given_up = True
            self._add_item(self.writer.give_up)

    def finish(self, at: float, ending: Ending) -> None:
        """End the exchange at `at` ms, and have the cassette written."""
        self._end = at, ending
        self._end_event.set()
        self._add_item(partial(self.writer.encode_end, at, ending))

    async def wait_until_filed(self) -> Path | None:
        """The cassette of this recording; None if it may not be replayed, or still runs."""
        if not self.has_head:
            return None
        with suppress(TimeoutError):
            async with asyncio.timeout(_ENDING_WAIT_S):
                await self._end_event.wait()
            async with asyncio.timeout(MAX_WAIT_S):
                return await asyncio.shield(self.filed_path)
        return None

    @property
    def has_pending(self) -> bool:
        """Whether items wait to be written."""
        return bool(self._items)

    def pop_pending_items(self) -> _ItemBatch:
        """Remove and return the items that wait to be written."""
        is_small = (
            self._pending_bytes <= self._max_small_bytes
            and not self._has_large_request
            and not self._has_content_coding
        )
        batch = _ItemBatch(self._items, self._pending_bytes, is_small, self._end)
        self._items, self._pending_bytes = [], 0
        self._has_large_request, self._end = False, None
        return batch

    def _add_item(self, item: _Item) -> None:
        self._items.append(item)
        if len(self._items) == 1:
            self._recorder.schedule_write(self)


class SpoolRecorder:
    """Starts recordings, writes them to spools and files them in the library."""

    def __init__(
        self,
        library: Library,
        spool_folder: Path,
        events: RecorderEvents,
        *,
        replaces_older: bool,
        keeps_takes: bool = False,
    ) -> None:
        """`keeps_takes` is whether `takes_of_run` will be called."""
        self.library_path = str(library.root.absolute())
        self.request_counter = RequestCounter()
        self.warned_places: set[str] = set()
        """Where secrets were replaced after a key was computed, and a warning was logged."""
        self._spool_folder = spool_folder
        self._events = events
        self._library = library
        self._filer = CassetteFiler(library, replaces_older=replaces_older)
        self._spool_numbers = itertools.count(1)
        self._spooling_executor = ThreadPoolExecutor(1, "spooling")
        self._filing_executor = ThreadPoolExecutor(1, "filing")
        self._scan_future = self._filing_executor.submit(self._filer.scan_existing)
        """Filing waits for it; clients do not."""
        self._pending: deque[SpooledRecording] = deque()
        self._pending_bytes = 0
        """Bytes that wait for the disk, of all recordings together."""
        self._capacity_event = asyncio.Event()
        self._capacity_event.set()
        self._thread_write_count = 0
        """Batches in the spooling thread; while there are any, later ones must go there too."""
        self._is_disk_slow = False
        self._tasks: set[asyncio.Future[None]] = set()
        self._keeps_takes = keeps_takes
        self._numbered_recordings: defaultdict[tuple[str, str], dict[int, SpooledRecording]] = (
            defaultdict(dict)
        )
        """The recordings of this run by session and key, and by take number, if they are kept."""
        self._holds: dict[str, SessionHold] = {}
        """The latest hold of each session."""
        self._unfiled_counts: Counter[str] = Counter()
        """Recordings that have begun and are not filed, by session."""
        self._filed_event = asyncio.Event()
        """Set whenever a recording is filed; whoever waits for it clears it first."""
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

    def start_recording(
        self,
        routed: RoutedRequest,
        operator_secrets: frozenset[bytes] = frozenset(),
        take: int | None = None,
    ) -> SpooledRecording:
        """Start to record an exchange as its key's next take of the run, or as number `take`.

        The operator's secrets were sent upstream, and are redacted like the client's.
        """
        self._unfiled_counts[routed.session] += 1
        writer = SpoolWriter(self, routed, operator_secrets, take)
        recording = SpooledRecording(self, writer, routed, self._holds.get(routed.session))
        if self._keeps_takes and take is not None:
            self._numbered_recordings[routed.session, routed.key][take] = recording
        return recording

    async def takes_of_run(self, session: str, key: str) -> list[LibraryTake]:
        """The takes of this run that are complete and no error responses, in order."""
        recordings = sorted(self._numbered_recordings.get((session, key), {}).items())
        paths = await asyncio.gather(*(each.wait_until_filed() for _, each in recordings))
        return [LibraryTake(path, self._library) for path in paths if path is not None]

    def create_spool(self) -> SpoolFile:
        """A new spool.  Raises `SpoolError` if it cannot be created."""
        name = f"{os.getpid()}-{next(self._spool_numbers)}.spool"
        return SpoolFile(self._spool_folder, name)

    def reset_session(self, session: str) -> None:
        """Number the takes of this session from 1 again, beginning with the next request."""
        self._write_all()
        if self._thread_write_count:
            self._thread_write_count += 1
            reset_future = self._spooling_executor.submit(
                self.request_counter.reset_session, session
            )
            self._start_task(self._await_reset(reset_future))
        else:
            self.request_counter.reset_session(session)

    async def _await_reset(self, reset_future: Future[None]) -> None:
        await asyncio.wrap_future(reset_future)
        self._thread_write_count -= 1

    def hold_session(self, session: str, *, replaces_session: bool = False) -> None:
        """From now on, let the takes that this session records replace none.

        They are stored after the existing ones, until `settle_session` or, without one, for good.
        All takes that exist now count as older ones, and take numbers restart at 1.  Does nothing
        while the session is held.

        With `replaces_session`, takes that are kept replace all older ones of the session, also
        those of other requests.
        """
        hold = self._holds.get(session)
        if hold is None or not hold.is_awaiting_verdict:
            self._holds[session] = SessionHold(replaces_session)
            self.reset_session(session)
            self._filing_executor.submit(self._filer.forget_session, session)

    async def settle_session(self, session: str, *, keep: bool, timeout_s: float) -> bool:
        """End the hold of a session, once all recordings of the session that have begun are filed.

        With `keep`, the held takes replace the older ones as if they had not been held.
        Otherwise, those of keys with a complete older take are deleted.  In `auto`, nothing is
        replaced or deleted.  Take numbers restart at 1.

        Waits up to `timeout_s` seconds for the recordings, and again for the files; returns
        whether that sufficed.  The verdict also applies to what the session records later, until
        it is held again.
        """
        is_all_filed = await self._wait_until_filed(session, timeout_s)
        self.reset_session(session)
        hold = self._holds.get(session)
        if hold is None or not hold.is_awaiting_verdict:
            return is_all_filed
        hold.is_awaiting_verdict = False
        settling = asyncio.ensure_future(self._settle_hold(session, hold, keep=keep))
        self._add_task(settling)
        done, _ = await asyncio.wait({settling}, timeout=timeout_s)
        for task in done:
            task.result()
        return is_all_filed and bool(done)

    async def _wait_until_filed(self, session: str, timeout_s: float) -> bool:
        self._write_all()
        try:
            async with asyncio.timeout(timeout_s):
                while self._unfiled_counts[session]:
                    self._filed_event.clear()
                    await self._filed_event.wait()
        except TimeoutError:
            return False
        return True

    async def _settle_hold(self, session: str, hold: SessionHold, *, keep: bool) -> None:
        new_paths = await asyncio.get_running_loop().run_in_executor(
            self._filing_executor, partial(self._filer.settle_session, session, hold, keep=keep)
        )
        self._events.on_moved(new_paths)
        deleted_count = sum(path is None for path in new_paths.values())
        if deleted_count and not keep:
            log.info(
                "session %s: deleted %s and kept the older cassettes, because the test failed",
                session,
                count_with_noun(deleted_count, "new cassette"),
            )

    def adjust_pending_bytes(self, byte_delta: int) -> None:
        """Add the bytes that arrived, or, if negative, subtract those that reached the disk."""
        self._pending_bytes += byte_delta
        if self._pending_bytes > MAX_BACKLOG_BYTES:
            self._capacity_event.clear()
        else:
            self._capacity_event.set()

    @property
    def has_capacity(self) -> bool:
        """Whether no more than `MAX_BACKLOG_BYTES` wait for the disk."""
        return self._capacity_event.is_set()

    async def wait_for_capacity(self) -> bool:
        """Wait until the disk has caught up; False if that takes longer than `MAX_WAIT_S`."""
        try:
            async with asyncio.timeout(MAX_WAIT_S):
                return await self._capacity_event.wait()
        except TimeoutError:
            return False

    async def close(self) -> None:
        """Write and file all recordings; every one must have ended."""
        await asyncio.sleep(0)  # a request without a response ends its recording in a callback
        self._write_all()
        if len(self._tasks) > _MIN_LOGGED_FILINGS:
            log.info("writing %s", count_with_noun(len(self._tasks), "cassette"))
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
            f"the disk accepted no data for {_CLOSE_TIMEOUT_S:g} s; to recover the data that was "
            f"already written to {self._spool_folder}, run llm-proxy recover"
        )
        for task in self._tasks:
            task.cancel()
            self._events.on_failed("a response", reason)

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
            self._handle_write_result(recording, batch, _write_items(recording.writer, batch.items))
        else:
            self._thread_write_count += 1
            recording.is_in_thread = True
            write_future = self._spooling_executor.submit(
                _write_items, recording.writer, batch.items
            )
            self._start_task(self._await_write_result(recording, batch, write_future))

    async def _await_write_result(
        self, recording: SpooledRecording, batch: _ItemBatch, write_future: Future[_WriteResult]
    ) -> None:
        write_result = await asyncio.wrap_future(write_future)
        self._thread_write_count -= 1
        recording.is_in_thread = False
        if recording.has_pending:
            self.schedule_write(recording)
        self._handle_write_result(recording, batch, write_result)

    def _handle_write_result(
        self, recording: SpooledRecording, batch: _ItemBatch, write_result: _WriteResult
    ) -> None:
        error, duration_s = write_result
        if batch.is_small:
            self._is_disk_slow = duration_s > SLOW_WRITE_S
        self.adjust_pending_bytes(-batch.memory_bytes)
        if error is not None:
            self._report_failure(recording, error)
        if batch.end is not None:
            self._start_task(self._file_cassette(recording, *batch.end))

    async def _file_cassette(
        self, recording: SpooledRecording, at_ms: float, ending: Ending
    ) -> None:
        loop = asyncio.get_running_loop()
        had_failed = recording.writer.has_failed
        self.settled_count += recording.has_head
        hold = recording.hold or self._holds.get(recording.session)
        try:
            filed_cassette = await loop.run_in_executor(
                self._filing_executor,
                partial(recording.writer.file_cassette, self._filer, hold, at_ms, ending),
            )
        except Exception as error:  # the outermost frame of this task
            recording.filed_path.set_result(None)
            if not had_failed:
                self._report_failure(recording, error)
            return
        finally:
            self._unfiled_counts[recording.session] -= 1
            self._filed_event.set()
        recording.filed_path.set_result(_replayable_path(filed_cassette))
        if filed_cassette is not None:
            self._events.on_filed(recording.writer.description, filed_cassette)

    def _start_task(self, coroutine: Coroutine[None, None, None]) -> None:
        """Start a task that `close` waits for."""
        self._add_task(asyncio.ensure_future(coroutine))

    def _add_task(self, task: asyncio.Future[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _report_failure(self, recording: SpooledRecording, error: Exception) -> None:
        is_spool_error = isinstance(error, SpoolError)
        reason = str(error) if is_spool_error else f"internal error; please report it: {error!r}"
        self._events.on_failed(recording.writer.description, reason)


def _replayable_path(filed: FiledCassette | None) -> Path | None:
    """The path of a recording that is complete and no error.

    Most clients retry after an error: the next request must reach the provider.
    """
    if filed is None or not filed.outcome.is_complete or filed.outcome.is_error:
        return None
    return filed.path


def _write_items(writer: SpoolWriter, items: list[_Item]) -> _WriteResult:
    """Write one batch; returns the error, if any, and the duration in seconds."""
    started_at_s = time.monotonic()
    error: Exception | None = None
    try:
        writer.write(items)
    except Exception as failure:  # the outermost frame of one write, in either thread
        writer.has_failed = True
        error = failure
    return error, time.monotonic() - started_at_s
