"""Splits a body into pieces anew without changing its bytes.

A new piece is due when the last of its bytes is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from llm_proxy.pacing.pace import Chunks

Piece = tuple[float, bytes]
"""When it is due, in ms since the request was read in full; and bytes that go out together."""

_MOST: Final = 100_000
"""Pieces: each of them takes memory, whatever the body's size."""


def rechunk(pieces: Iterable[Piece], chunks: Chunks | None) -> Iterable[Piece]:
    """The pieces, of so many bytes each, or all in one; other words leave them as they are."""
    match chunks:
        case int(size):
            return _cut_to_size(pieces, size)
        case "coalesced":
            return _join_pieces(pieces)
        case _:
            return pieces


def _cut_to_size(pieces: Iterable[Piece], size: int) -> Iterator[Piece]:
    """Pieces of `size` bytes, wherever that cuts; the last one has what is left.

    Behind so many pieces as are made at all, the rest comes as it would have come.
    """
    left = bytearray()
    last, made = 0.0, 0
    for at, data in pieces:
        left += data
        last = at
        whole = min(len(left) // size, _MOST - made) * size
        yield from ((at, bytes(left[here : here + size])) for here in range(0, whole, size))
        made += whole // size
        del left[:whole]
        if made == _MOST and left:
            yield at, bytes(left)
            left.clear()
    if left:
        yield last, bytes(left)


def _join_pieces(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """All of them as one; none where there is nothing."""
    moments, data = [0.0], bytearray()
    for at, piece in pieces:
        moments.append(at)
        data += piece
    if data:
        yield moments[-1], bytes(data)
