"""`malformed-chunk`: the proxy sends an invalid HTTP chunk and closes the connection.

head  event 1  event 2  zz␍␊  FIN
├─────┼────────┼────────┼─────┤
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
"""Chunk sizes are hexadecimal, and this is not a hexadecimal number."""


def _end_with_invalid_chunk(position: StreamPosition) -> InjectedActions:
    position.require_head()  # before the head, it is unknown whether the body is chunked
    return InjectedActions((SendRaw(_INVALID_CHUNK_SIZE), Abort("fin")), ends_response=True)


KIND = FaultKind(
    "malformed-chunk",
    FaultEffect.MALFORMED,
    "an invalid HTTP chunk",
    lambda: OneShot(_end_with_invalid_chunk),
    allowed_locations=ALL_LOCATIONS,
    allowed_framings=frozenset(("chunked",)),
    example="malformed-chunk,after=1",
)
