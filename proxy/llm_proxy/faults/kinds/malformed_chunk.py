"""`malformed-chunk`: HTTP itself is broken.

    head  event 1  event 2  zz␍␊  FIN
    ├─────┼────────┼────────┼─────┤

At its place comes a chunk whose size is no number, and the connection is closed.  Only a chunked
body has chunks: a whole body of a declared length has none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from llm_proxy.actions import Abort, SendRaw
from llm_proxy.faults.fault_record import Effect
from llm_proxy.faults.kind import ANYWHERE, Kind, Moment, Strike, Struck, Work
from llm_proxy.faults.location import Place

_CHUNK: Final = b"zz\r\n"
"""Sizes are hexadecimal, and this is no such number."""


@dataclass(frozen=True, slots=True)
class MalformedChunk:
    """A chunk that is none."""

    def work(self, _place: Place | None, /) -> Work:
        """At its place."""
        return Strike(_strike)


def _strike(moment: Moment) -> Struck:
    moment.begun_head()  # which says that there are chunks
    return Struck((SendRaw(_CHUNK), Abort("fin")), over=True)


KIND = Kind(
    "malformed-chunk", Effect.MALFORMED, "a chunk whose size is no number", MalformedChunk,
    places=ANYWHERE, delimited=frozenset(("chunked",)), example="malformed-chunk,after=1",
)  # fmt: skip
