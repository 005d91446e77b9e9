"""`slice`: the body is sent in small writes.

    head  e v e n t ␣ 1 …
    ├─────┼─┼─┼─┼─┼─┼─┼─┼──

The bytes are unchanged, but a write can end in the middle of an event or a multi-byte character.
"""

from __future__ import annotations

from typing import Final

from llm_proxy import unit_parsers
from llm_proxy.actions import Action, Burst, Send, Wait
from llm_proxy.errors import UsageError
from llm_proxy.faults.kind import (
    ALL_LOCATIONS,
    ActionTransform,
    FaultArgument,
    FaultEffect,
    FaultKind,
    Mechanism,
    Transform,
)

_MAX_WRITES: Final = 100_000
"""Limits memory: every write takes some, whatever the body's size."""


def _slice(size: int, delay: float) -> Mechanism:
    if size < 1:
        raise UsageError("size= must be at least 1 byte")
    return Transform(lambda position: _SliceTransform(size, delay, position.at_ms))


class _SliceTransform(ActionTransform):
    def __init__(self, size: int, delay_ms: float, start_ms: float) -> None:
        self._size = size
        self._delay_ms = delay_ms
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

    def _slice(self, data: bytes) -> list[Action]:
        actions: list[Action] = []
        for begin in range(0, len(data), self._size):
            if self._write_count == _MAX_WRITES:
                return [*actions, Send(data[begin:])]
            self._write_count += 1
            self._next_write_ms += self._delay_ms
            actions += [Send(data[begin : begin + self._size]), Wait(self._next_write_ms)]
        return actions


KIND = FaultKind(
    "slice",
    FaultEffect.SLOWED,
    "a body sent in small writes",
    _slice,
    {
        "size": FaultArgument(unit_parsers.parse_size_bytes, "bytes per write", is_required=True),
        "delay": FaultArgument(unit_parsers.parse_duration_ms, "time between two writes", "1ms"),
    },
    allowed_locations=ALL_LOCATIONS,
    example="slice,size=7",
)
