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
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.kind import (
    ANYWHERE,
    FaultKind,
    InjectedActions,
    OneShot,
    StreamPosition,
    Work,
)
from llm_proxy.faults.location import Place

_CHUNK: Final = b"zz\r\n"
"""Sizes are hexadecimal, and this is no such number."""


@dataclass(frozen=True, slots=True)
class MalformedChunk:
    """A chunk that is none."""

    def mechanism(self, _place: Place | None, /) -> Work:
        """At its place."""
        return OneShot(_inject)


def _inject(position: StreamPosition) -> InjectedActions:
    position.require_head()  # which says that there are chunks
    return InjectedActions((SendRaw(_CHUNK), Abort("fin")), ends_response=True)


KIND = FaultKind(
    "malformed-chunk", FaultEffect.MALFORMED, "a chunk whose size is no number", MalformedChunk,
    allowed_locations=ANYWHERE, needs_messages=frozenset(("chunked",)),
    example="malformed-chunk,after=1",
)  # fmt: skip
