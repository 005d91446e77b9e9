"""`malformed-chunk`: the chunked framing of HTTP is invalid.

    head  event 1  event 2  zz␍␊  FIN
    ├─────┼────────┼────────┼─────┤

At its location a chunk is sent whose size is no number, and the connection is closed.  Applicable
only to chunked bodies.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from llm_proxy.actions import Abort, SendRaw
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.kind import (
    ALL_LOCATIONS,
    FaultKind,
    InjectedActions,
    Mechanism,
    OneShot,
    StreamPosition,
)
from llm_proxy.faults.location import StreamLocation

_INVALID_CHUNK_SIZE: Final = b"zz\r\n"
"""Chunk sizes are hexadecimal, and this is no hexadecimal number."""


@dataclass(frozen=True, slots=True)
class MalformedChunk:
    """Sends an invalid chunk."""

    def make_mechanism(self, _location: StreamLocation | None, /) -> Mechanism:
        """Ends the response at its location."""
        return OneShot(_make_injected_actions)


def _make_injected_actions(position: StreamPosition) -> InjectedActions:
    position.require_head()  # before the head, it is unknown whether the body is chunked
    return InjectedActions((SendRaw(_INVALID_CHUNK_SIZE), Abort("fin")), ends_response=True)


KIND = FaultKind(
    "malformed-chunk", FaultEffect.MALFORMED, "a chunk whose size is no number", MalformedChunk,
    allowed_locations=ALL_LOCATIONS, allowed_framings=frozenset(("chunked",)),
    example="malformed-chunk,after=1",
)  # fmt: skip
