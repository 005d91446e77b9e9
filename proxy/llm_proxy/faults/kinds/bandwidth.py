"""`bandwidth`: the body comes through a narrow line.

    head  ▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪  …
    ├─────┼──────────┼────────────┼─────────────
          event 1    event 2      event 3

Bytes, order and length are the same; each piece is due when a line of `rate` bytes a second has
carried it, counted from its place on.  What the answer itself waits for is not waited for twice.
Pieces are of 20 ms each, so cuts fall within events, and within characters.  After
100,000 pieces the rest comes in those that it had, at the same rate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from llm_proxy import unit_parsers
from llm_proxy.actions import Action, Burst, Send, Wait
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.kind import ANYWHERE, FaultArgument, FaultKind, Transform, Work
from llm_proxy.faults.location import Place

_PIECE: Final = 20
"""ms that a piece takes, unless a single byte takes longer."""
_MOST: Final = 100_000
"""Pieces: each of them takes memory, whatever the body's size."""


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """A line that carries so many bytes a second."""

    rate: int

    def mechanism(self, _place: Place | None, /) -> Work:
        """From its place on."""
        return Transform(lambda position: _ThrottledLine(self.rate, position.at))


class _ThrottledLine:
    """A line that is busy, or waits for something to carry."""

    def __init__(self, rate: int, at: float) -> None:
        self._rate = rate
        self._piece = max(1, rate * _PIECE // 1000)
        self._busy_since = at
        """When it last began to be busy, in ms."""
        self._carried_size = 0
        """Bytes since then."""
        self._pieces = 0

    def feed(self, action: Action) -> Burst:
        match action:
            case Wait(due):
                if due > self._free_at_ms():
                    self._busy_since, self._carried_size = due, 0
                return (Wait(self._free_at_ms()),)
            case Send(data):
                return tuple(self._schedule_piece(data))
            case _:
                return (action,)

    def close(self) -> Burst:
        return ()

    def _free_at_ms(self) -> float:
        """When it has carried all, in ms: counted from one moment, so nothing drifts."""
        return self._busy_since + self._carried_size * 1000 / self._rate

    def _schedule_piece(self, data: bytes) -> list[Action]:
        gone: list[Action] = []
        for begin in range(0, len(data), self._piece):
            self._pieces += 1
            piece = data[begin : begin + self._piece] if self._pieces < _MOST else data[begin:]
            self._carried_size += len(piece)
            gone += [Wait(self._free_at_ms()), Send(piece)]
            if self._pieces >= _MOST:
                break
        return gone


KIND = FaultKind(
    "bandwidth", FaultEffect.SLOWED, "the body comes through a narrow line", Bandwidth,
    {"rate": FaultArgument(unit_parsers.parse_rate, "bytes a second: 500, 16kB, "
                                                    "1MiB", is_required=True)},
    allowed_locations=ANYWHERE, example="bandwidth,rate=16kB",
)  # fmt: skip
