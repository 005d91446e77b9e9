"""`bandwidth`: the body arrives at a limited rate.

    head  ▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪  …
    ├─────┼──────────┼────────────┼─────────────
          event 1    event 2      event 3

Data is sent every 20 ms. A write can end in the middle of an event or a multi-byte character.
"""

from __future__ import annotations

from typing import Final

from llm_proxy import unit_parsers
from llm_proxy.actions import Action, Burst, Send, Wait
from llm_proxy.faults.kind import (
    ALL_LOCATIONS,
    ActionTransform,
    FaultArgument,
    FaultEffect,
    FaultKind,
    Transform,
)

_PIECE_MS: Final = 20
"""The time that a piece takes, unless a single byte takes longer."""
_MAX_PIECES: Final = 100_000
"""Limits memory: every piece takes some, whatever the body's size."""


class _BandwidthTransform(ActionTransform):
    def __init__(self, bytes_per_s: int, start_ms: float) -> None:
        self._bytes_per_s = bytes_per_s
        self._piece_bytes = max(1, bytes_per_s * _PIECE_MS // 1000)
        self._busy_since_ms = start_ms
        """When the line last became busy."""
        self._carried_bytes = 0
        """Bytes since then."""
        self._piece_count = 0

    def feed(self, action: Action) -> Burst:
        match action:
            case Wait(due):
                if due > self._free_at_ms():
                    self._busy_since_ms, self._carried_bytes = due, 0
                return (Wait(self._free_at_ms()),)
            case Send(data):
                return tuple(self._schedule_pieces(data))
            case _:
                return (action,)

    def _free_at_ms(self) -> float:
        """When the line has carried everything: computed from one start, so nothing drifts."""
        return self._busy_since_ms + self._carried_bytes * 1000 / self._bytes_per_s

    def _schedule_pieces(self, data: bytes) -> list[Action]:
        actions: list[Action] = []
        for begin in range(0, len(data), self._piece_bytes):
            self._piece_count += 1
            is_last = self._piece_count >= _MAX_PIECES
            piece = data[begin:] if is_last else data[begin : begin + self._piece_bytes]
            self._carried_bytes += len(piece)
            actions += [Wait(self._free_at_ms()), Send(piece)]
            if is_last:
                break
        return actions


KIND = FaultKind(
    "bandwidth",
    FaultEffect.SLOWED,
    "a limited transfer rate",
    lambda rate: Transform(lambda position: _BandwidthTransform(rate, position.at_ms)),
    {
        "rate": FaultArgument(
            unit_parsers.parse_bytes_per_second,
            "bytes per second, such as 500, 16kB or 1MiB",
            is_required=True,
        )
    },
    allowed_locations=ALL_LOCATIONS,
    example="bandwidth,rate=16kB",
)
