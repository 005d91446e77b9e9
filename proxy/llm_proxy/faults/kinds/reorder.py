"""`reorder`: two messages change places.

    event 1  event 3  event 2  event 4  …
    ├────────┼────────┼────────┼────────┼──

Both come when the later one was due, and each can be read.  What a client makes of it tells whether
it looks at numbers, indexes and the order of openings and ends.
"""

from __future__ import annotations

from dataclasses import dataclass

from llm_proxy.actions import Send
from llm_proxy.faults.fault_record import Effect
from llm_proxy.faults.kind import (
    AT_MESSAGES,
    STREAMS,
    CannotInject,
    Kind,
    Moment,
    Strike,
    Struck,
    Work,
)
from llm_proxy.faults.location import Place
from llm_proxy.framing.reordering import rearranged


@dataclass(frozen=True, slots=True)
class Reorder:
    """The next two messages, the other way round."""

    def work(self, _place: Place | None, /) -> Work:
        """The change, behind its place."""
        return Strike(_strike, takes=2, resizes=True)


def _strike(moment: Moment) -> Struck:
    if len(moment.taken) < 2:  # two are what changes places
        raise CannotInject("there was but one message behind it")
    try:
        told = rearranged(moment.codec, moment.taken, (1, 0))
    except ValueError as why:
        raise CannotInject(str(why)) from None
    return Struck(tuple(map(Send, told)))


KIND = Kind(
    "reorder", Effect.ALTERED, "two messages change places", Reorder,
    places=AT_MESSAGES, bodies=STREAMS, example="reorder,after=2",
)  # fmt: skip
