"""`coalesce`: several events are sent in one write.

    head  event 1  ................  event 2 event 3 … [DONE]
    ├─────┼────────┤               ├─┤

Without `events=`, the rest of the body is sent in one write when its last byte is due.
"""

from __future__ import annotations

from llm_proxy import framing, unit_parsers
from llm_proxy.actions import Action, Begin, Burst, Send, Wait
from llm_proxy.faults.kind import (
    ALL_LOCATIONS,
    ActionTransform,
    FaultArgument,
    FaultEffect,
    FaultKind,
    StreamPosition,
    Transform,
)


class _CoalesceTransform(ActionTransform):
    def __init__(self, events_per_write: int | None, position: StreamPosition) -> None:
        position.require_head()  # the codec is known only from the head
        self._events_per_write = events_per_write
        self._due_ms = position.at_ms
        self._held = bytearray()
        self._held_message_count = 0
        """Messages that end in the held bytes."""
        self._codec = framing.new_codec(position.codec)
        self._codec.feed(position.sent_message_prefix)
        # Offsets count from the beginning of the message that the location is in.
        self._held_offset = len(position.sent_message_prefix)
        self._message_end = 0

    def feed(self, action: Action) -> Burst:
        match action:
            case Wait(due):
                self._due_ms = due
                return ()
            case Begin():
                return (Wait(self._due_ms), action)
            case Send(data):
                self._held += data
                return self._completed_writes(data) if self._events_per_write else ()
            case _:
                return (*self.close(), action)

    def close(self) -> Burst:
        return self._flush_write(len(self._held))

    def _completed_writes(self, data: bytes) -> Burst:
        """The writes that these bytes complete, each due with its last byte."""
        writes: list[Action] = []
        for message in self._codec.feed(data):
            self._message_end += len(message)
            self._held_message_count += 1
            if self._held_message_count == self._events_per_write:
                writes += self._flush_write(self._message_end - self._held_offset)
        return tuple(writes)

    def _flush_write(self, size: int) -> Burst:
        data = bytes(self._held[:size])
        del self._held[:size]
        self._held_offset += size
        self._held_message_count = 0
        return (Wait(self._due_ms), Send(data)) if data else (Wait(self._due_ms),)


KIND = FaultKind(
    "coalesce",
    FaultEffect.SLOWED,
    "several events sent in one write",
    lambda events=None: Transform(lambda position: _CoalesceTransform(events, position)),
    {
        "events": FaultArgument(
            unit_parsers.parse_positive_count, "number of events per write; default: all"
        )
    },
    allowed_locations=ALL_LOCATIONS,
    example="coalesce,after=1",
)
