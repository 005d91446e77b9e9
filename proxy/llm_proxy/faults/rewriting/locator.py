"""Locates a rule's place in a body as it arrives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from llm_proxy.faults.kind import EVERYTHING, STREAMS, FaultNotApplicable
from llm_proxy.faults.location import AfterBytes, AfterEvents, AtEvent, AtFraction, AtTime, Place
from llm_proxy.faults.rewriting.buffered_body import BufferedBody

Types = Callable[[bytes], frozenset[str]]
"""The types of a message."""


@dataclass(frozen=True, slots=True)
class LocatorState:
    """What is known of a place by now."""

    safe_offset: int
    """Bytes of the body that may go out, for the place lies behind them."""
    found_offset: bool = False
    """Whether the place is there, just behind these bytes."""


class StreamLocator:
    """Looks for a place in one body, as it comes."""

    def __init__(self, place: Place, body: BufferedBody, types: Types) -> None:
        self._place = place
        self._body = body
        self._types = types
        self._checked_count = 0
        """Messages whose types were looked at."""

    def locate(self) -> LocatorState:
        """Where it is."""
        body = self._body
        match self._place:
            case AfterEvents(events):
                if len(body.message_ends) < events:
                    return LocatorState(body.fed_size)
                end = body.message_ends[events - 1] if events else 0
                return LocatorState(max(end, body.released_size), found_offset=True)
            case AfterBytes(size):
                return LocatorState(min(size, body.fed_size), found_offset=body.fed_size >= size)
            case AtEvent(type=wanted):
                return self._offset_before(wanted)
            case AtTime() | AtFraction():
                return LocatorState(body.fed_size)

    def _offset_before(self, wanted: str) -> LocatorState:
        body = self._body
        while self._checked_count < len(body.message_ends):
            begin = body.message_ends[self._checked_count - 1] if self._checked_count else 0
            if wanted in self._types(body.messages[self._checked_count]):
                return LocatorState(begin, found_offset=True)
            self._checked_count += 1
        return LocatorState(body.message_ends[-1] if body.message_ends else 0)

    def not_found_reason(self) -> str:
        """Why it was not found in all of the body."""
        body = self._body
        match self._place:
            case AfterEvents(events):
                return f"the body had {len(body.message_ends)} messages, and not {events}"
            case AfterBytes(size):
                return f"the body had {body.fed_size} bytes, and not {size}"
            case AtEvent(type=wanted):
                return f"no message of the body was of the type {wanted}"
            case AtTime(ms):
                return f"the answer was over before {ms:g} ms"
            case AtFraction():
                return "the body's length was not known"


def resolve_location(place: Place | None, codec: str, total: int | None, takes: int) -> Place:
    """The place as it can be looked for in a body of this framing and length.

    A fault that was given none strikes after the first message; in a body without messages at
    half of it, or takes it as a whole.  One that takes everything begins before the first message.
    Raises `FaultNotApplicable` where a place has no meaning there.
    """
    match place:
        case None if takes:
            return AfterEvents(1 if codec in STREAMS and takes != EVERYTHING else 0)
        case None if codec in STREAMS:
            return AfterEvents(1)
        case None:
            return AfterBytes(1 if total is None else total // 2)
        case AtFraction(share):
            if total is None:
                raise FaultNotApplicable("fraction= needs a body whose length is known beforehand")
            return AfterBytes(round(total * share))
        case AfterEvents(events) if events and codec not in STREAMS:
            raise FaultNotApplicable("the body does not come in messages")
        case AtEvent() if codec not in STREAMS:
            raise FaultNotApplicable("the body does not come in messages")
        case _:
            return place
