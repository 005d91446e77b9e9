"""One exchange being taken down: what came of it, until it is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from llm_proxy import framing
from llm_proxy.exchange import Ending, Head, Read, header
from llm_proxy.frame_redaction import EVENTSTREAM
from llm_proxy.shell.recording import backlog
from llm_proxy.shell.recording.backlog import Backlog
from llm_proxy.shell.recording.spool_writer import (
    EndItem,
    HeadItem,
    Item,
    LossItem,
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
class Batch:
    """What came of one recording, to be written at once."""

    items: list[Item]
    size: int
    """Bytes of memory."""
    is_small: bool
    """Whether it is little work."""


class Desk(Protocol):
    """Where recordings are handed in."""

    @property
    def backlog(self) -> Backlog:
        """What waits for the disk."""

    def writer(self) -> SpoolWriter:
        """The writer of a new spool."""

    def touched(self, recording: SpooledRecording) -> None:
        """Here is something to write."""


class SpooledRecording:
    """One exchange being taken down: the event loop's side."""

    def __init__(self, desk: Desk, start: StartItem) -> None:
        """As little as can be: the request has not been sent yet."""
        self._desk = desk
        self._writer: SpoolWriter | None = None
        self._items: list[Item] = [start]
        self._lost = False
        self._is_answered = False
        self.is_coded = False
        """Whether few bytes may become many: the upstream compresses, although asked not to."""
        self._small = SMALL
        """Bytes of it that are little work."""
        self.in_thread = False
        """Whether the spooling thread writes something of it down."""
        desk.touched(self)

    @property
    def writer(self) -> SpoolWriter:
        """What writes it down."""
        if self._writer is None:
            self._writer = self._desk.writer()
        return self._writer

    def conceal(self, secrets: frozenset[bytes]) -> None:
        """The request went out with these: they are stored of neither it nor its answer."""
        self._add(SecretsItem(secrets))

    def head(self, at: float, head: Head) -> None:
        """The head arrived, at `at` ms."""
        self._is_answered = True
        self.is_coded = header(head.headers, "content-encoding") is not None
        if framing.by_content_type(header(head.headers, "content-type")) == EVENTSTREAM:
            self._small = min(SMALL, SMALL_FRAMED)
        self._add(HeadItem(at, head))

    def read(self, read: Read) -> None:
        """Bytes arrived."""
        if not self._lost:
            self._desk.backlog.grow(_size(read))
            self._add(read)

    @property
    def keeps_up(self) -> bool:
        """Whether more may come."""
        return self._lost or self._desk.backlog.has_room

    async def catch_up(self) -> None:
        """Wait until it keeps up, or is given up."""
        if not await self._desk.backlog.room():
            self._lost = True
            self._add(
                LossItem(f"the disk takes longer than {backlog.PATIENCE:g} s for what arrived")
            )

    def end(self, at: float, ending: Ending) -> None:
        """Nothing more will come: write the cassette."""
        self._add(EndItem(at, ending, self._is_answered))

    @property
    def has_more(self) -> bool:
        """Whether something came since the last time."""
        return bool(self._items)

    def drain(self) -> Batch:
        """What came since the last time."""
        items, self._items = self._items, []
        size = sum(map(_size, items))
        asked = max(map(_request_size, items), default=0)
        is_small = size <= self._small and asked <= SMALL_REQUEST and not self.is_coded
        return Batch(items, size, is_small)

    def _add(self, item: Item) -> None:
        self._items.append(item)
        if len(self._items) == 1:
            self._desk.touched(self)


def _size(item: Item) -> int:
    """Bytes of memory that an item of an answer has, about."""
    return len(item.data) + _OVERHEAD if isinstance(item, Read) else 0


def _request_size(item: Item) -> int:
    """Bytes of the request that a recording begins with."""
    return len(item.call.request.body) if isinstance(item, StartItem) else 0
