"""The event loop's side of one recording: collects items until they are written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from llm_proxy import framing
from llm_proxy.exchange import Ending, Read, ResponseHead, header_value
from llm_proxy.frame_redaction import EVENTSTREAM
from llm_proxy.shell.recording import backlog
from llm_proxy.shell.recording.backlog import Backlog
from llm_proxy.shell.recording.spool_writer import (
    EndItem,
    HeadItem,
    Item,
    RecordingLossItem,
    SecretsItem,
    SpoolWriter,
    StartItem,
)

SMALL: Final = 64 * 1024
"""Bytes of a response that are written on the event loop at a time: less than a ms of work."""
SMALL_FRAMED: Final = 16 * 1024
"""Bytes of an event stream instead: each frame is looked into, which takes 5 to 10 µs."""
SMALL_REQUEST: Final = 16 * 1024
"""Bytes of a request that is keyed and written there."""
_OVERHEAD: Final = 200
"""Bytes of memory that a read has beyond its own."""


@dataclass(frozen=True, slots=True)
class ItemBatch:
    """What came of one recording, to be written at once."""

    items: list[Item]
    size: int
    """Bytes of memory."""
    is_small: bool
    """Whether it is little work."""


class RecordingDesk(Protocol):
    """Where recordings are handed in."""

    @property
    def backlog(self) -> Backlog:
        """What waits for the disk."""

    def writer(self) -> SpoolWriter:
        """The writer of a new spool."""

    def schedule_write(self, recording: SpooledRecording) -> None:
        """Here is something to write."""


class SpooledRecording:
    """One exchange being taken down: the event loop's side."""

    def __init__(self, desk: RecordingDesk, start: StartItem) -> None:
        """As little as can be: the request has not been sent yet."""
        self._desk = desk
        self._writer: SpoolWriter | None = None
        self._items: list[Item] = [start]
        self._is_lost = False
        self._is_responded = False
        self.has_content_coding = False
        """Whether few bytes may become many: the upstream compresses, although asked not to."""
        self._small_size = SMALL
        """Bytes of it that are little work."""
        self.in_thread = False
        """Whether the spooling thread writes something of it down."""
        desk.schedule_write(self)

    @property
    def writer(self) -> SpoolWriter:
        """What writes it down."""
        if self._writer is None:
            self._writer = self._desk.writer()
        return self._writer

    def redact_secrets(self, secrets: frozenset[bytes]) -> None:
        """The request went out with these: they are stored of neither it nor its answer."""
        self._add_item(SecretsItem(secrets))

    def record_head(self, at: float, head: ResponseHead) -> None:
        """The head arrived, at `at` ms."""
        self._is_responded = True
        self.has_content_coding = header_value(head.headers, "content-encoding") is not None
        if framing.codec_of_content_type(header_value(head.headers, "content-type")) == EVENTSTREAM:
            self._small_size = min(SMALL, SMALL_FRAMED)
        self._add_item(HeadItem(at, head))

    def record_read(self, read: Read) -> None:
        """Bytes arrived."""
        if not self._is_lost:
            self._desk.backlog.add(_item_size(read))
            self._add_item(read)

    @property
    def has_capacity(self) -> bool:
        """Whether more may come."""
        return self._is_lost or self._desk.backlog.has_capacity

    async def wait_for_capacity(self) -> None:
        """Wait until it keeps up, or is given up."""
        if not await self._desk.backlog.wait_for_capacity():
            self._is_lost = True
            self._add_item(
                RecordingLossItem(
                    f"the disk takes longer than {backlog.PATIENCE:g} s for what arrived"
                )
            )

    def finish(self, at: float, ending: Ending) -> None:
        """Nothing more will come: write the cassette."""
        self._add_item(EndItem(at, ending, self._is_responded))

    @property
    def has_pending(self) -> bool:
        """Whether something came since the last time."""
        return bool(self._items)

    def take_pending(self) -> ItemBatch:
        """What came since the last time."""
        items, self._items = self._items, []
        size = sum(map(_item_size, items))
        number = max(map(_request_size, items), default=0)
        is_small = (
            size <= self._small_size and number <= SMALL_REQUEST and not self.has_content_coding
        )
        return ItemBatch(items, size, is_small)

    def _add_item(self, item: Item) -> None:
        self._items.append(item)
        if len(self._items) == 1:
            self._desk.schedule_write(self)


def _item_size(item: Item) -> int:
    return len(item.data) + _OVERHEAD if isinstance(item, Read) else 0


def _request_size(item: Item) -> int:
    return len(item.routed.request.body) if isinstance(item, StartItem) else 0
