"""`malformed-chunk`: the chunked framing of HTTP is invalid.

    head  event 1  event 2  zz␍␊  FIN
    ├─────┼────────┼────────┼─────┤

At its location a chunk is sent whose size is no number, and the connection is closed.  Applicable
only to chunked bodies.
"""

from __future__ import annotations

from typing import Final

from llm_proxy.actions import Abort, SendRaw
from llm_proxy.faults.kind import (
    ALL_LOCATIONS,
    FaultEffect,
    FaultKind,
    InjectedActions,
    OneShot,
    StreamPosition,
)

_INVALID_CHUNK_SIZE: Final = b"zz\r\n"
"""Chunk sizes are hexadecimal, and this is no hexadecimal number."""


def _end_with_invalid_chunk(position: StreamPosition) -> InjectedActions:
    position.require_head()  # before the head, it is unknown whether the body is chunked
    return InjectedActions((SendRaw(_INVALID_CHUNK_SIZE), Abort("fin")), ends_response=True)


KIND = FaultKind(
    "malformed-chunk",
    FaultEffect.MALFORMED,
    "a chunk whose size is no number",
    lambda: OneShot(_end_with_invalid_chunk),
    allowed_locations=ALL_LOCATIONS,
    allowed_framings=frozenset(("chunked",)),
    example="malformed-chunk,after=1",
)
