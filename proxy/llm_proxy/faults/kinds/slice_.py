"""`slice`: the body goes out in small writes, wherever they end.

    head  e v e n t ␣ 1 …
    ├─────┼─┼─┼─┼─┼─┼─┼─┼──

Nothing is wrong with it: bytes, order and length are the same, but cuts fall within events, and
within characters of UTF-8.  `delay` is the time between two writes; without one, the network
may join them again.  After 100,000 writes the rest comes as it would have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from llm_proxy import unit_parsers
from llm_proxy.actions import Action, Burst, Send, Wait
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.kind import ANYWHERE, FaultArgument, FaultKind, Transform, Work
from llm_proxy.faults.location import Place

_MOST: Final = 100_000
"""Writes: each of them takes memory, whatever the body's size."""


@dataclass(frozen=True, slots=True)
class Slice:
    """Writes of at most so many bytes, with so many ms between them."""

    size: int
    delay: float = 1.0

    def __post_init__(self) -> None:
        """Raises `ValueError` where nothing would ever be written."""
        if self.size < 1:
            raise ValueError("size must be 1 byte or more")

    def mechanism(self, _place: Place | None, /) -> Work:
        """From its place on."""
        return Transform(lambda position: _SliceTransform(self, position.at))


class _SliceTransform:
    def __init__(self, how: Slice, at: float) -> None:
        self._how = how
        self._at = at
        self._written = 0

    def feed(self, action: Action) -> Burst:
        match action:
            case Send(data):
                return tuple(self._slice(data))
            case Wait(due) if due <= self._at:
                return ()  # what comes while others are still on their way goes behind them
            case Wait(due):
                self._at = due
                return (action,)
            case _:
                return (action,)

    def close(self) -> Burst:
        return ()

    def _slice(self, data: bytes) -> list[Action]:
        gone: list[Action] = []
        for begin in range(0, len(data), self._how.size):
            if self._written == _MOST:
                return [*gone, Send(data[begin:])]
            self._written += 1
            gone += [Send(data[begin : begin + self._how.size]), Wait(self._at + self._how.delay)]
            self._at += self._how.delay
        return gone


KIND = FaultKind(
    "slice", FaultEffect.SLOWED, "small writes, also within a character", Slice,
    {
        "size": FaultArgument(unit_parsers.parse_size, "bytes of a write", is_required=True),
        "delay": FaultArgument(unit_parsers.parse_milliseconds, "the time between two "
                                                                "writes", "1ms"),
    },
    allowed_locations=ANYWHERE, example="slice,size=7",
)  # fmt: skip
