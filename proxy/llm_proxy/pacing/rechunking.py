"""In which pieces a body goes out: the same bytes, cut anew.

A new piece is due when the last of its bytes is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from llm_proxy.pacing.pace import Chunks


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes that go out together."""

    at: float
    """ms since the request was read in full."""
    data: bytes


def rechunked(pieces: Sequence[Piece], chunks: Chunks | None) -> Sequence[Piece]:
    """The pieces, of so many bytes each, or all in one; other words leave them as they are."""
    match chunks:
        case int(size):
            return tuple(_cut(pieces, size))
        case "coalesced":
            whole = b"".join(it.data for it in pieces)
            return (Piece(pieces[-1].at, whole),) if whole else ()
        case _:
            return pieces


def _cut(pieces: Sequence[Piece], size: int) -> Iterator[Piece]:
    """Pieces of `size` bytes, wherever that cuts; the last one has what is left."""
    left = bytearray()
    at = 0.0
    for piece in pieces:
        left += piece.data
        at = piece.at
        whole = len(left) // size * size
        yield from (Piece(at, bytes(left[here : here + size])) for here in range(0, whole, size))
        del left[:whole]
    if left:
        yield Piece(at, bytes(left))
