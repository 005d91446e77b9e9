"""`slice`: the body is sent in small writes.

    head  e v e n t ␣ 1 …
    ├─────┼─┼─┼─┼─┼─┼─┼─┼──

Bytes, order and length are unchanged, but cuts fall within events, and within UTF-8 characters.
`delay` is the time between two writes; without one, the network may join them again.  After 100,000
writes the rest is sent in its original chunks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from llm_proxy import unit_parsers
from llm_proxy.actions import Action, Burst, Send, Wait
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.kind import ALL_LOCATIONS, FaultArgument, FaultKind, Mechanism, Transform
from llm_proxy.faults.location import StreamLocation

_MAX_WRITES: Final = 100_000
"""Limits memory: every write takes some, whatever the body's size."""


@dataclass(frozen=True, slots=True)
class Slice:
    """Splits the body into writes of at most `size` bytes, `delay` ms apart."""

    size: int
    delay: float = 1.0

    def __post_init__(self) -> None:
        """Raises `ValueError` for a size below 1, with which nothing would be written."""
        if self.size < 1:
            raise ValueError("size must be 1 byte or more")

    def make_mechanism(self, _location: StreamLocation | None, /) -> Mechanism:
        """Splits everything from its location on."""
        return Transform(lambda position: _SliceTransform(self, position.at_ms))


class _SliceTransform:
    def __init__(self, fault: Slice, start_ms: float) -> None:
        self._fault = fault
        self._next_write_ms = start_ms
        self._write_count = 0

    def feed(self, action: Action) -> Burst:
        match action:
            case Send(data):
                return tuple(self._slice(data))
            case Wait(due) if due <= self._next_write_ms:
                return ()  # earlier slices delay what follows for longer
            case Wait(due):
                self._next_write_ms = due
                return (action,)
            case _:
                return (action,)

    def close(self) -> Burst:
        return ()

    def _slice(self, data: bytes) -> list[Action]:
        actions: list[Action] = []
        for begin in range(0, len(data), self._fault.size):
            if self._write_count == _MAX_WRITES:
                return [*actions, Send(data[begin:])]
            self._write_count += 1
            actions += [
                Send(data[begin : begin + self._fault.size]),
                Wait(self._next_write_ms + self._fault.delay),
            ]
            self._next_write_ms += self._fault.delay
        return actions


KIND = FaultKind(
    "slice", FaultEffect.SLOWED, "small writes, also within a character", Slice,
    {
        "size": FaultArgument(unit_parsers.parse_size_bytes, "bytes of a write", is_required=True),
        "delay": FaultArgument(unit_parsers.parse_duration_ms, "the time between two "
                                                                "writes", "1ms"),
    },
    allowed_locations=ALL_LOCATIONS, example="slice,size=7",
)  # fmt: skip
