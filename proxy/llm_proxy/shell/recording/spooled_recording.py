"""The event loop's side of one recording: collects items until they are written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from llm_proxy import framing
from llm_proxy.exchange import Ending, Read, ResponseHead, header_value
from llm_proxy.frame_redaction import EVENTSTREAM_CODEC
from llm_proxy.shell.recording import backlog
from llm_proxy.shell.recording.backlog import Backlog
from llm_proxy.shell.recording.spool_writer import (
    EndItem,
    HeadItem,
    LossItem,
    OperatorSecretsItem,
    RecordingItem,
    SpoolWriter,
    StartItem,
)

MAX_SMALL_BYTES: Final = 64 * 1024
"""Maximum bytes of a response in one write on the event loop: less than a ms of work."""
MAX_SMALL_FRAMED_BYTES: Final = 16 * 1024
"""The same for an AWS event stream: each frame is parsed, which takes 5 to 10 µs."""
MAX_SMALL_REQUEST_BYTES: Final = 16 * 1024
"""Maximum bytes of a request body whose key is computed on the event loop."""
_READ_OVERHEAD_BYTES: Final = 200
"""Memory overhead of one read, in bytes."""


@dataclass(frozen=True, slots=True)
class ItemBatch:
    """Items of one recording that are written together."""

    items: list[RecordingItem]
    memory_bytes: int
    """Approximate memory of the items."""
    is_small: bool
    """Whether it may be written on the event loop."""


class WriteScheduler(Protocol):
    """Schedules the writes of recordings."""

    @property
    def backlog(self) -> Backlog:
        """The bytes that wait for the disk."""

    def new_writer(self) -> SpoolWriter:
        """A writer for a new spool."""

    def schedule_write(self, recording: SpooledRecording) -> None:
        """Schedule a write of the recording's pending items."""


class SpooledRecording:
    """One running recording: the event loop's side, which queues items for the writer."""

    def __init__(self, scheduler: WriteScheduler, start: StartItem) -> None:
        """Does as little work as possible: the request has not been sent yet."""
        self._scheduler = scheduler
        self._writer: SpoolWriter | None = None
        self._items: list[RecordingItem] = [start]
        self._is_given_up = False
        self._has_head = False
        self.has_content_coding = False
        """Whether the upstream compresses, although not requested: few bytes may become many."""
        self._max_small_bytes = MAX_SMALL_BYTES
        """Maximum bytes of a small batch of this recording."""
        self.is_in_thread = False
        """Whether a batch of this recording is being written in the spooling thread."""
        scheduler.schedule_write(self)

    @property
    def writer(self) -> SpoolWriter:
        """The recording's writer, created at its first use."""
        if self._writer is None:
            self._writer = self._scheduler.new_writer()
        return self._writer

    def redact_secrets(self, secrets: frozenset[bytes]) -> None:
        """Redact these secrets of the upstream request from request and response."""
        self._add_item(OperatorSecretsItem(secrets))

    def record_head(self, at: float, head: ResponseHead) -> None:
        """Record the head, which arrived at `at` ms."""
        self._has_head = True
        self.has_content_coding = header_value(head.headers, "content-encoding") is not None
        if (
            framing.codec_name_for_content_type(header_value(head.headers, "content-type"))
            == EVENTSTREAM_CODEC
        ):
            self._max_small_bytes = min(MAX_SMALL_BYTES, MAX_SMALL_FRAMED_BYTES)
        self._add_item(HeadItem(at, head))

    def record_read(self, read: Read) -> None:
        """Record bytes that arrived."""
        if not self._is_given_up:
            self._scheduler.backlog.adjust_pending_bytes(_item_memory_bytes(read))
            self._add_item(read)

    @property
    def has_capacity(self) -> bool:
        """Whether the disk keeps up, or the recording was given up."""
        return self._is_given_up or self._scheduler.backlog.has_capacity

    async def wait_for_capacity(self) -> None:
        """Wait until the disk has caught up, or give the recording up."""
        if not await self._scheduler.backlog.wait_for_capacity():
            self._is_given_up = True
            self._add_item(
                LossItem(f"the disk takes longer than {backlog.MAX_WAIT_S:g} s for what arrived")
            )

    def finish(self, at: float, ending: Ending) -> None:
        """End the exchange at `at` ms, and have the cassette written."""
        self._add_item(EndItem(at, ending, self._has_head))

    @property
    def has_pending(self) -> bool:
        """Whether items wait to be written."""
        return bool(self._items)

    def pop_pending_items(self) -> ItemBatch:
        """Remove and return the items that wait to be written."""
        items, self._items = self._items, []
        memory_bytes = sum(map(_item_memory_bytes, items))
        request_bytes = max(map(_request_body_bytes, items), default=0)
        is_small = (
            memory_bytes <= self._max_small_bytes
            and request_bytes <= MAX_SMALL_REQUEST_BYTES
            and not self.has_content_coding
        )
        return ItemBatch(items, memory_bytes, is_small)

    def _add_item(self, item: RecordingItem) -> None:
        self._items.append(item)
        if len(self._items) == 1:
            self._scheduler.schedule_write(self)


def _item_memory_bytes(item: RecordingItem) -> int:
    return len(item.received_bytes) + _READ_OVERHEAD_BYTES if isinstance(item, Read) else 0


def _request_body_bytes(item: RecordingItem) -> int:
    return len(item.routed_request.request.body) if isinstance(item, StartItem) else 0
