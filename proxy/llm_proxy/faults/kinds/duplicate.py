"""`duplicate`: a message comes more than once.

    event 1  event 2  event 2  event 3  …
    ├────────┼────────┼────────┼────────┼──

The copies are the same to the byte, numbers and identifiers too; each can be read.  Most clients
take a word that comes twice for two words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from llm_proxy import unit_parsers
from llm_proxy.actions import Send
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.kind import (
    AT_MESSAGES,
    STREAMS,
    FaultArgument,
    FaultKind,
    FaultNotApplicable,
    InjectedActions,
    OneShot,
    StreamPosition,
    Work,
)
from llm_proxy.faults.location import Place
from llm_proxy.framing.reordering import rearrange_messages

_MOST: Final = 10_000
"""Copies of a message."""
_LARGEST: Final = 64 * 1024 * 1024
"""Bytes of all copies: they are remembered to judge what the client makes of them."""


@dataclass(frozen=True, slots=True)
class Duplicate:
    """So many copies beside the message itself."""

    count: int = 1

    def __post_init__(self) -> None:
        """Raises `ValueError` where nothing would happen, or far too much."""
        if not 1 <= self.count <= _MOST:
            raise ValueError(f"count must be from 1 to {_MOST}")

    def mechanism(self, _place: Place | None, /) -> Work:
        """The copies, behind their place."""
        return OneShot(self._inject, taken_count=1, changes_length=True)

    def _inject(self, position: StreamPosition) -> InjectedActions:
        if self.count * len(position.taken_messages[0]) > _LARGEST:
            raise FaultNotApplicable(f"so many copies would have more than {_LARGEST} bytes")
        try:
            items = rearrange_messages(
                position.codec, position.taken_messages, [0] * (1 + self.count)
            )
        except ValueError as why:
            raise FaultNotApplicable(str(why)) from None
        return InjectedActions(tuple(map(Send, items)))


KIND = FaultKind(
    "duplicate", FaultEffect.ALTERED, "a message comes more than once", Duplicate,
    {"count": FaultArgument(unit_parsers.parse_count, "how many copies", "1")},
    allowed_locations=AT_MESSAGES, allowed_bodies=STREAMS, example="duplicate,after=2",
)  # fmt: skip
