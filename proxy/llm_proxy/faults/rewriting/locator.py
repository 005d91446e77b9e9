"""Finds the location of a rule in a body while it arrives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from llm_proxy.faults.kind import ALL_MESSAGES, STREAM_CODECS, FaultNotApplicable
from llm_proxy.faults.location import (
    AfterBytes,
    AfterEvents,
    AtEvent,
    AtFraction,
    AtTime,
    StreamLocation,
)
from llm_proxy.faults.rewriting.buffered_body import BufferedBody

EventTypesOf = Callable[[bytes], frozenset[str]]
"""Returns the event types of a message."""


@dataclass(frozen=True, slots=True)
class LocatorState:
    """What is known of a location by now."""

    safe_offset: int
    """How many bytes of the body may be released, since the location is not before their end."""
    is_found: bool = False
    """Whether the location is exactly at `safe_offset`."""


class StreamLocator:
    """Searches one body for a location while it arrives."""

    def __init__(
        self, location: StreamLocation, body: BufferedBody, event_types_of: EventTypesOf
    ) -> None:
        self._location = location
        self._body = body
        self._event_types_of = event_types_of
        self._checked_message_count = 0
        """Messages whose types were compared."""

    def locate(self) -> LocatorState:
        """The location, as far as it is known from the bytes that have arrived."""
        body = self._body
        match self._location:
            case AfterEvents(events):
                if len(body.message_ends) < events:
                    return LocatorState(body.fed_bytes)
                end = body.message_ends[events - 1] if events else 0
                return LocatorState(max(end, body.released_bytes), is_found=True)
            case AfterBytes(size):
                return LocatorState(min(size, body.fed_bytes), is_found=body.fed_bytes >= size)
            case AtEvent(type=event_type):
                return self._locate_event(event_type)
            case AtTime() | AtFraction():
                return LocatorState(body.fed_bytes)

    def _locate_event(self, event_type: str) -> LocatorState:
        body = self._body
        while self._checked_message_count < len(body.message_ends):
            begin = (
                body.message_ends[self._checked_message_count - 1]
                if self._checked_message_count
                else 0
            )
            if event_type in self._event_types_of(body.messages[self._checked_message_count]):
                return LocatorState(begin, is_found=True)
            self._checked_message_count += 1
        return LocatorState(body.message_ends[-1] if body.message_ends else 0)

    def not_found_reason(self) -> str:
        """Why the complete body does not contain the location."""
        body = self._body
        match self._location:
            case AfterEvents(events):
                return f"the body had {len(body.message_ends)} messages, and not {events}"
            case AfterBytes(size):
                return f"the body had {body.fed_bytes} bytes, and not {size}"
            case AtEvent(type=event_type):
                return f"no message of the body was of the type {event_type}"
            case AtTime(ms):
                return f"the answer was over before {ms:g} ms"
            case AtFraction():
                return "the body's length was not known"


def resolve_location(
    location: StreamLocation | None, codec: str, total_bytes: int | None, taken_message_count: int
) -> StreamLocation:
    """The location to search for in a body with this codec and length.

    The default is after the first message; in a whole body, half of its bytes, or its beginning for
    a fault that takes messages.  A fault that takes all messages begins before the first.  Raises
    `FaultNotApplicable` where the location does not exist in such a body.
    """
    match location:
        case None if taken_message_count:
            return AfterEvents(
                1 if codec in STREAM_CODECS and taken_message_count != ALL_MESSAGES else 0
            )
        case None if codec in STREAM_CODECS:
            return AfterEvents(1)
        case None:
            return AfterBytes(1 if total_bytes is None else total_bytes // 2)
        case AtFraction(share):
            if total_bytes is None:
                raise FaultNotApplicable("fraction= needs a body whose length is known beforehand")
            return AfterBytes(round(total_bytes * share))
        case AfterEvents(events) if events and codec not in STREAM_CODECS:
            raise FaultNotApplicable("the body does not come in messages")
        case AtEvent() if codec not in STREAM_CODECS:
            raise FaultNotApplicable("the body does not come in messages")
        case _:
            return location
