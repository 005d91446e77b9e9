"""Edits AWS event stream frames, with lengths and checksums adjusted."""

from __future__ import annotations

import struct
from binascii import crc32
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from llm_proxy.framing import eventstream
from llm_proxy.framing.eventstream import PRELUDE, RawHeader

_CHECKSUM: Final = 4
"""Bytes of a checksum."""


@dataclass(frozen=True, slots=True)
class Edit:
    """`new` takes the place of the bytes from `begin` to `end`."""

    begin: int
    end: int
    new: bytes

    @property
    def growth(self) -> int:
        """Bytes by which what is edited becomes longer."""
        return len(self.new) - (self.end - self.begin)


def is_intact(frame: bytes) -> bool:
    """Whether a frame whose prelude fits, if it is there, is whole and its checksum is right."""
    if len(frame) < PRELUDE + _CHECKSUM or len(frame) != int.from_bytes(frame[:4], "big"):
        return False
    return crc32(frame[:-_CHECKSUM]) == int.from_bytes(frame[-_CHECKSUM:], "big")


def payload_span(frame: bytes) -> tuple[int, int] | None:
    """Where a frame's payload begins and ends, as far as it goes in one that was cut.

    None where not even its headers are whole.  Its prelude must fit if it is there.
    """
    if len(frame) < PRELUDE:
        return None
    total, length = struct.unpack_from(">II", frame)
    begin = PRELUDE + length
    return None if len(frame) < begin else (begin, min(len(frame), total - _CHECKSUM))


def frame_headers(frame: bytes, end: int) -> tuple[RawHeader, ...]:
    """The headers of a frame, which end there; none where they are malformed."""
    try:
        return tuple(eventstream.parse_headers(frame[:end], PRELUDE))
    except (ValueError, KeyError, IndexError, struct.error):
        return ()


def rename_header_edit(header: RawHeader, name: bytes, value: bytes) -> Edit | None:
    """The edit that gives a header another name and value; None where they are too long for one."""
    try:
        new = eventstream.encode_header(name, header.value_type, value)
    except ValueError:
        return None
    return Edit(header.start, header.end, new)


def with_envelope_edits(frame: bytes, edits: Sequence[Edit]) -> list[Edit]:
    """These edits of a frame's headers and payload, with those that its prelude and end need.

    A frame that was cut stays so, and one whose checksum was wrong gets a wrong one.
    """
    total, length = struct.unpack_from(">II", frame)
    within = sum(edit.growth for edit in edits if edit.end <= PRELUDE + length)
    lengths = struct.pack(">II", total + sum(edit.growth for edit in edits), length + within)
    prelude = Edit(0, PRELUDE, lengths + crc32(lengths).to_bytes(_CHECKSUM, "big"))
    begun = [prelude, *edits]
    if len(frame) < total:
        return begun
    end = total - _CHECKSUM
    wrong = crc32(frame[:end]) ^ int.from_bytes(frame[end:], "big")
    checksum = crc32(apply_edits(frame[:end], begun)) ^ wrong
    return [*begun, Edit(end, total, checksum.to_bytes(_CHECKSUM, "big"))]


def apply_edits(data: bytes, edits: Iterable[Edit]) -> bytes:
    """`data` with these edits, which come from left to right."""
    pieces: list[bytes] = []
    at = 0
    for edit in edits:
        pieces += [data[at : edit.begin], edit.new]
        at = edit.end
    return b"".join([*pieces, data[at:]])


def moved_positions(positions: Iterable[int], edits: Iterable[Edit]) -> Iterator[int]:
    """Where these positions, which ascend, are once the edits have been applied.

    What takes the place of bytes keeps their beginning.
    """
    ahead = iter(edits)
    edit, shift = next(ahead, None), 0
    for position in positions:
        while edit is not None and edit.end <= position:
            shift += edit.growth
            edit = next(ahead, None)
        if edit is not None and edit.begin < position:
            yield edit.begin + shift + min(position - edit.begin, len(edit.new))
        else:
            yield position + shift
