"""AWS event streams (`application/vnd.amazon.eventstream`): splitting, parsing and encoding frames.

Numbers are big-endian; each checksum is the CRC-32 of everything in the frame before it.

    total length │ headers' length │ CRC │ headers │ payload │ CRC
         4               4            4                         4
    └──────────── prelude ─────────────┘

A prelude whose checksum fits says where its frame ends; the frame is a message.  Where a
prelude does not fit (a gateway's page, say), nothing tells where frames begin again, and no
client looks for it: the rest of the stream is one message.
"""

from __future__ import annotations

import struct
from binascii import crc32
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

NAME: Final = "eventstream"
"""The name of the codec."""

CONTENT_TYPE: Final = "application/vnd.amazon.eventstream"

_LENGTHS: Final = struct.Struct(">II")
_PRELUDE: Final = struct.Struct(">III")
_CRC: Final = struct.Struct(">I")
_SHORT: Final = struct.Struct(">H")
PRELUDE: Final = _PRELUDE.size
"""Bytes of a prelude."""
LONGEST_FRAME: Final = (24 * 1024 + 128) * 1024 + 16
"""Bytes of the longest frame that clients accept; one that says it is longer is none."""
_LEAST: Final = _PRELUDE.size + _CRC.size
"""Bytes of a frame without headers and payload."""
_ENDLESS: Final = 2**62
"""More bytes than any stream has."""

_BYTES: Final = 6
_TEXT: Final = 7
_LONGEST: Final = 2**16 - 1
"""Bytes of the longest value of a header."""
_LONGEST_NAME: Final = 2**8 - 1
_WIDTHS: Final = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""Bytes of a header's value, by its type: true, false, integers, a time, a UUID."""


class EventStreamCodec:
    """Cuts a stream into frames of at most `limit` bytes; a longer one is cut there."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pending = bytearray()
        self._prelude = bytearray()
        """What has come of the open message's prelude."""
        self._in_prelude = True
        self._missing_size = _PRELUDE.size
        """Bytes that the prelude, or else the message, still lacks."""

    def feed(self, data: bytes) -> list[bytes]:
        """Take bytes as they arrive; give the frames that are complete."""
        done: list[bytes] = []
        at = 0
        while at < len(data):
            piece = data[at : at + self._missing_size]
            at += len(piece)
            self._pending += piece
            self._missing_size -= len(piece)
            if self._in_prelude:
                self._prelude += piece
            has_ended = not self._missing_size and not self._in_prelude
            if has_ended:
                self._begin_frame()
            elif not self._missing_size:
                self._in_prelude, self._missing_size = False, _remaining_size(self._prelude)
            done += self._take_messages(1 if has_ended else self._limit)
        return done

    def close(self) -> list[bytes]:
        """Say that nothing follows; give what is left."""
        self._begin_frame()
        return self._take_messages(1)

    def _begin_frame(self) -> None:
        self._prelude.clear()
        self._in_prelude, self._missing_size = True, _PRELUDE.size

    def _take_messages(self, at_least: int) -> list[bytes]:
        """Messages off the front, as long as `at_least` bytes are there."""
        done: list[bytes] = []
        while len(self._pending) >= at_least:
            done.append(bytes(self._pending[: self._limit]))
            del self._pending[: self._limit]
        return done


def frame_size(prelude: bytes | bytearray) -> int | None:
    """Bytes of the frame that begins with this prelude; None where no frame does."""
    total, headers, checksum = _PRELUDE.unpack(prelude)
    fits = checksum == crc32(prelude[: _LENGTHS.size]) and total >= _LEAST + headers
    return int(total) if fits else None


def begins_eventstream(start: bytes) -> bool:
    """Whether a stream of frames begins so: with a prelude whose checksum fits."""
    return len(start) >= PRELUDE and frame_size(start[:PRELUDE]) is not None


def may_begin_frame(data: bytes) -> bool:
    """Whether a frame can begin with this, a byte or more: none is longer than clients accept."""
    return data[0] <= LONGEST_FRAME >> 24


def _remaining_size(prelude: bytes | bytearray) -> int:
    """How many bytes follow this prelude in its message."""
    return (frame_size(prelude) or _ENDLESS) - _PRELUDE.size


@dataclass(frozen=True, slots=True)
class RawHeader:
    """A header of a frame, and where it stands."""

    name: bytes
    value_type: int
    """The number of its value's type."""
    value: bytes
    start: int
    end: int

    @property
    def has_length(self) -> bool:
        """Whether its value may be longer or shorter: bytes or text."""
        return self.value_type in (_BYTES, _TEXT)

    def text(self) -> str | None:
        """Its value, where that is text.  Raises `ValueError` for what is no UTF-8."""
        return self.value.decode() if self.value_type == _TEXT else None


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame, read."""

    headers: tuple[tuple[str, str], ...]
    """Those that hold text, in their order; providers send no others."""
    payload: bytes

    def header(self, name: str) -> str:
        """The value of a header; empty where there is none."""
        return next((value for key, value in self.headers if key == name), "")


def parse_frame(message: bytes) -> Frame | None:
    """Read one message of `EventStreamCodec`; None where it is no frame that a client accepts.

    Both checksums, the lengths, and the headers (UTF-8, each name once) are checked.
    """
    if (
        len(message) < _LEAST
        or _remaining_size(message[: _PRELUDE.size]) != len(message) - _PRELUDE.size
    ):
        return None
    body, checksum = message[: -_CRC.size], message[-_CRC.size :]
    if _CRC.unpack(checksum) != (crc32(body),):
        return None
    payload_at = _PRELUDE.size + _LENGTHS.unpack_from(body)[1]
    try:
        pairs = [
            (parse_header.name.decode(), parse_header.text())
            for parse_header in parse_headers(body[:payload_at], PRELUDE)
        ]
    except (ValueError, KeyError, IndexError, struct.error):
        return None
    if len({name for name, _ in pairs}) != len(pairs):
        return None
    return Frame(tuple((name, text) for name, text in pairs if text is not None), body[payload_at:])


def encode_frame(headers: Sequence[tuple[str, str]], payload: bytes) -> bytes:
    """One frame with these headers, all of them text.

    Raises `ValueError` for what no frame can hold.
    """
    try:
        written = b"".join(
            encode_header(name.encode(), _TEXT, value.encode()) for name, value in headers
        )
        lengths = _LENGTHS.pack(_LEAST + len(written) + len(payload), len(written))
    except struct.error:
        raise ValueError("a frame cannot hold so much") from None
    body = lengths + _CRC.pack(crc32(lengths)) + written + payload
    return body + _CRC.pack(crc32(body))


def parse_headers(data: bytes, at: int) -> Iterator[RawHeader]:
    """The headers in `data` from `at` on.

    Raises `ValueError`, `KeyError`, `IndexError` or `struct.error` where they are malformed.
    """
    while at < len(data):
        begin = at
        name, at = _slice_at(data, at + 1, data[at])
        kind, at = data[at], at + 1
        if kind in (_BYTES, _TEXT):
            (width,) = _SHORT.unpack_from(data, at)
            at += _SHORT.size
        else:
            width = _WIDTHS[kind]
        value, at = _slice_at(data, at, width)
        yield RawHeader(name, kind, value, begin, at)


def _slice_at(data: bytes, at: int, width: int) -> tuple[bytes, int]:
    """So many bytes, and where they end."""
    end = at + width
    if end > len(data):
        raise ValueError("the header goes on behind the headers")
    return data[at:end], end


def encode_header(name: bytes, kind: int, value: bytes) -> bytes:
    """A header as it stands in a frame.  Raises `ValueError` where it is too long for one."""
    if len(name) > _LONGEST_NAME or len(value) > _LONGEST:
        raise ValueError("a frame cannot hold so much")
    length = _SHORT.pack(len(value)) if kind in (_BYTES, _TEXT) else b""
    return bytes((len(name),)) + name + bytes((kind,)) + length + value
