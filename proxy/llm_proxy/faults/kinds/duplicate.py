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
from llm_proxy.faults.fault_record import Effect
from llm_proxy.faults.kind import (
    AT_MESSAGES,
    STREAMS,
    Argument,
    CannotInject,
    Kind,
    Moment,
    Strike,
    Struck,
    Work,
)
from llm_proxy.faults.location import Place
from llm_proxy.framing.reordering import rearranged

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

    def work(self, _place: Place | None, /) -> Work:
        """The copies, behind their place."""
        return Strike(self._strike, takes=1, resizes=True)

    def _strike(self, moment: Moment) -> Struck:
        if self.count * len(moment.taken[0]) > _LARGEST:
            raise CannotInject(f"so many copies would have more than {_LARGEST} bytes")
        try:
            told = rearranged(moment.codec, moment.taken, [0] * (1 + self.count))
        except ValueError as why:
            raise CannotInject(str(why)) from None
        return Struck(tuple(map(Send, told)))


KIND = Kind(
    "duplicate", Effect.ALTERED, "a message comes more than once", Duplicate,
    {"count": Argument(unit_parsers.count, "how many copies", "1")},
    places=AT_MESSAGES, bodies=STREAMS, example="duplicate,after=2",
)  # fmt: skip
