"""Splits a body into other pieces without changing its bytes.

A new piece is due when its last byte was due.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from llm_proxy.pacing.pace import Chunks

TimedPiece = tuple[float, bytes]
"""A due time, in ms since the request was read in full, and the bytes to send together."""

_MAX_PIECES: Final = 100_000
"""Limits memory: every piece takes some, whatever the body's size."""


def rechunk(pieces: Iterable[TimedPiece], chunks: Chunks | None) -> Iterable[TimedPiece]:
    """The pieces cut to a size in bytes, or coalesced; other values of `chunks` keep them."""
    match chunks:
        case int(piece_bytes):
            return _cut_to_size(pieces, piece_bytes)
        case "coalesced":
            return _join_pieces(pieces)
        case _:
            return pieces


def _cut_to_size(pieces: Iterable[TimedPiece], piece_bytes: int) -> Iterator[TimedPiece]:
    """Pieces of `piece_bytes` bytes; the last one has the remaining bytes.

    After `_MAX_PIECES` pieces the rest keeps its original pieces.
    """
    buffered = bytearray()
    last_due_ms, piece_count = 0.0, 0
    for due_ms, data in pieces:
        buffered += data
        last_due_ms = due_ms
        cut_bytes = min(len(buffered) // piece_bytes, _MAX_PIECES - piece_count) * piece_bytes
        yield from (
            (due_ms, bytes(buffered[start : start + piece_bytes]))
            for start in range(0, cut_bytes, piece_bytes)
        )
        piece_count += cut_bytes // piece_bytes
        del buffered[:cut_bytes]
        if piece_count == _MAX_PIECES and buffered:
            yield due_ms, bytes(buffered)
            buffered.clear()
    if buffered:
        yield last_due_ms, bytes(buffered)


def _join_pieces(pieces: Iterable[TimedPiece]) -> Iterator[TimedPiece]:
    """All pieces joined into one, due with the last; none for an empty body."""
    due_times_ms, data = [0.0], bytearray()
    for due_ms, piece in pieces:
        due_times_ms.append(due_ms)
        data += piece
    if data:
        yield due_times_ms[-1], bytes(data)
