"""`coalesce`: what came bit by bit comes at once.

    head  event 1  ................  event 2 event 3 … [DONE]
    ├─────┼────────┤               ├─┤

From its place on, everything goes out in one write, when the last of it is due: as through a
gateway that buffers.  With `events=` it is so many messages a write.  Nothing is wrong with it: the
bytes are the same, but a client that takes each read for an event has several in one.
"""

from __future__ import annotations

from dataclasses import dataclass

from llm_proxy import framing, unit_parsers
from llm_proxy.actions import Action, Begin, Burst, Send, Wait
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.kind import (
    ANYWHERE,
    FaultArgument,
    FaultKind,
    StreamPosition,
    Transform,
    Work,
)
from llm_proxy.faults.location import Place


@dataclass(frozen=True, slots=True)
class Coalesce:
    """Writes of so many messages; None is all of them."""

    events: int | None = None

    def __post_init__(self) -> None:
        """Raises `ValueError` where nothing would ever be written."""
        if self.events == 0:
            raise ValueError("events must be 1 or more")

    def mechanism(self, _place: Place | None, /) -> Work:
        """From its place on."""
        return Transform(self._begin_transform)

    def _begin_transform(self, position: StreamPosition) -> _Coalescing:
        position.require_head()  # which says what its messages are
        return _Coalescing(self.events, position)


class _Coalescing:
    """Holds the body back until there is enough of it."""

    def __init__(self, events: int | None, position: StreamPosition) -> None:
        self._events = events
        self._due = position.at
        self._held = bytearray()
        self._codec = framing.new_codec(position.codec)
        self._ends = 0
        """Messages that end in what is held."""
        self._end = 0
        """Where the last of them ends."""
        self._sent_size = len(position.partial_message)
        """Bytes of the message that is under way which have gone out before."""
        self._codec.feed(position.partial_message)

    def feed(self, action: Action) -> Burst:
        match action:
            case Wait(due):
                self._due = due
                return ()
            case Begin():
                return (Wait(self._due), action)
            case Send(data):
                self._held += data
                return self._complete_writes(self._codec.feed(data) if self._events else [])
            case _:
                return (*self.close(), action)

    def close(self) -> Burst:
        """All that is left."""
        return self._flush_write(len(self._held))

    def _complete_writes(self, messages: list[bytes]) -> Burst:
        """The writes that these messages complete, each when its last byte came."""
        gone: list[Action] = []
        for message in messages:
            self._end += len(message) - self._sent_size
            self._sent_size = 0
            self._ends += 1
            if self._ends == self._events:
                gone += self._flush_write(self._end)
        return tuple(gone)

    def _flush_write(self, end: int) -> Burst:
        data = bytes(self._held[:end])
        del self._held[:end]
        self._ends = self._end = 0
        return (Wait(self._due), Send(data)) if data else (Wait(self._due),)


KIND = FaultKind(
    "coalesce", FaultEffect.SLOWED, "what came bit by bit comes at once", Coalesce,
    {"events": FaultArgument(unit_parsers.parse_count, "messages of a write; all of them if "
                                                       "left out")},
    allowed_locations=ANYWHERE, example="coalesce,after=1",
)  # fmt: skip
