"""Edits AWS event stream frames, with lengths and checksums adjusted."""

from __future__ import annotations

import struct
from binascii import crc32
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from llm_proxy.framing import eventstream
from llm_proxy.framing.eventstream import PRELUDE_BYTES

_CHECKSUM_BYTES: Final = 4
"""Size of a checksum."""


@dataclass(frozen=True, slots=True)
class ByteEdit:
    """Replaces the bytes from `begin` to `end` by `replacement`."""

    begin: int
    end: int
    replacement: bytes

    @property
    def growth_bytes(self) -> int:
        """Bytes by which the data grows; negative if it shrinks."""
        return len(self.replacement) - (self.end - self.begin)


def is_intact_frame(frame: bytes) -> bool:
    """Whether a frame is complete and its checksum is right; its prelude must be valid."""
    if len(frame) < PRELUDE_BYTES + _CHECKSUM_BYTES or len(frame) != int.from_bytes(
        frame[:4], "big"
    ):
        return False
    return crc32(frame[:-_CHECKSUM_BYTES]) == int.from_bytes(frame[-_CHECKSUM_BYTES:], "big")


def intact_payload_span(message: bytes) -> tuple[int, int] | None:
    """The start and end offsets of a message's payload; None if it is no intact frame."""
    is_frame = is_intact_frame(message) and eventstream.frame_size(message[:PRELUDE_BYTES])
    return payload_span(message) if is_frame else None


def payload_span(frame: bytes) -> tuple[int, int] | None:
    """The start and end offsets of a frame's payload; in a truncated frame it ends with the data.

    None if the headers are incomplete.  A complete prelude must be valid.
    """
    if len(frame) < PRELUDE_BYTES:
        return None
    total, length = struct.unpack_from(">II", frame)
    begin = PRELUDE_BYTES + length
    return None if len(frame) < begin else (begin, min(len(frame), total - _CHECKSUM_BYTES))


def with_envelope_edits(frame: bytes, edits: Sequence[ByteEdit]) -> list[ByteEdit]:
    """Edits of a frame's headers and payload, with the edits of lengths and checksums added.

    A truncated frame stays truncated, and a wrong checksum stays wrong.
    """
    total, length = struct.unpack_from(">II", frame)
    headers_growth = sum(edit.growth_bytes for edit in edits if edit.end <= PRELUDE_BYTES + length)
    lengths = struct.pack(
        ">II", total + sum(edit.growth_bytes for edit in edits), length + headers_growth
    )
    prelude = ByteEdit(0, PRELUDE_BYTES, lengths + crc32(lengths).to_bytes(_CHECKSUM_BYTES, "big"))
    edits_before_checksum = [prelude, *edits]
    if len(frame) < total:
        return edits_before_checksum
    end = total - _CHECKSUM_BYTES
    checksum_difference = crc32(frame[:end]) ^ int.from_bytes(frame[end:], "big")
    checksum = crc32(apply_edits(frame[:end], edits_before_checksum)) ^ checksum_difference
    return [*edits_before_checksum, ByteEdit(end, total, checksum.to_bytes(_CHECKSUM_BYTES, "big"))]


def apply_edits(data: bytes, edits: Iterable[ByteEdit]) -> bytes:
    """`data` with these edits, which must be ordered from left to right."""
    pieces: list[bytes] = []
    offset = 0
    for edit in edits:
        pieces += [data[offset : edit.begin], edit.replacement]
        offset = edit.end
    return b"".join([*pieces, data[offset:]])


def moved_positions(positions: Iterable[int], edits: Iterable[ByteEdit]) -> Iterator[int]:
    """The ascending positions as they are after the edits have been applied.

    A replacement begins where the replaced bytes began.
    """
    remaining_edits = iter(edits)
    edit, shift = next(remaining_edits, None), 0
    for position in positions:
        while edit is not None and edit.end <= position:
            shift += edit.growth_bytes
            edit = next(remaining_edits, None)
        if edit is not None and edit.begin < position:
            yield edit.begin + shift + min(position - edit.begin, len(edit.replacement))
        else:
            yield position + shift
