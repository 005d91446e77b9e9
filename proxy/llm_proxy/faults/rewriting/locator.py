"""Where in a body a place is, as far as it can be told yet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from llm_proxy.faults.kind import EVERYTHING, STREAMS, CannotInject
from llm_proxy.faults.location import AfterBytes, AfterEvents, AtEvent, AtFraction, AtTime, Place
from llm_proxy.faults.rewriting.buffered_body import Body

Types = Callable[[bytes], frozenset[str]]
"""The types of a message."""


@dataclass(frozen=True, slots=True)
class Spot:
    """What is known of a place by now."""

    free: int
    """Bytes of the body that may go out, for the place lies behind them."""
    found: bool = False
    """Whether the place is there, just behind these bytes."""


class Seeking:
    """Looks for a place in one body, as it comes."""

    def __init__(self, place: Place, body: Body, types: Types) -> None:
        self._place = place
        self._body = body
        self._types = types
        self._looked = 0
        """Messages whose types were looked at."""

    def spot(self) -> Spot:
        """Where it is."""
        body = self._body
        match self._place:
            case AfterEvents(events):
                if len(body.ends) < events:
                    return Spot(body.fed)
                end = body.ends[events - 1] if events else 0
                return Spot(max(end, body.released), found=True)
            case AfterBytes(size):
                return Spot(min(size, body.fed), found=body.fed >= size)
            case AtEvent(type=wanted):
                return self._before(wanted)
            case AtTime() | AtFraction():
                return Spot(body.fed)

    def _before(self, wanted: str) -> Spot:
        body = self._body
        while self._looked < len(body.ends):
            begin = body.ends[self._looked - 1] if self._looked else 0
            if wanted in self._types(body.messages[self._looked]):
                return Spot(begin, found=True)
            self._looked += 1
        return Spot(body.ends[-1] if body.ends else 0)

    def missed(self) -> str:
        """Why it was not found in all of the body."""
        body = self._body
        match self._place:
            case AfterEvents(events):
                return f"the body had {len(body.ends)} messages, and not {events}"
            case AfterBytes(size):
                return f"the body had {body.fed} bytes, and not {size}"
            case AtEvent(type=wanted):
                return f"no message of the body was of the type {wanted}"
            case AtTime(ms):
                return f"the answer was over before {ms:g} ms"
            case AtFraction():
                return "the body's length was not known"


def fixed(place: Place | None, codec: str, total: int | None, takes: int) -> Place:
    """The place as it can be looked for in a body of this framing and length.

    A fault that was given none strikes after the first message; in a body without messages at
    half of it, or takes it as a whole.  One that takes everything begins before the first message.
    Raises `CannotInject` where a place has no meaning there.
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
                raise CannotInject("fraction= needs a body whose length is known beforehand")
            return AfterBytes(round(total * share))
        case AfterEvents(events) if events and codec not in STREAMS:
            raise CannotInject("the body does not come in messages")
        case AtEvent() if codec not in STREAMS:
            raise CannotInject("the body does not come in messages")
        case _:
            return place
