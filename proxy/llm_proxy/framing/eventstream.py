"""AWS event streams (`application/vnd.amazon.eventstream`): splitting, parsing and encoding frames.

Numbers are big-endian; each checksum is the CRC-32 of everything in the frame before it.

    total length │ headers' length │ CRC │ headers │ payload │ CRC
         4               4            4                         4
    └──────────── prelude ─────────────┘

A prelude with a valid checksum gives the length of its frame; a frame is a message.  After an
invalid prelude (such as a gateway's error page) no later frame start can be found, and no client
looks for one: the rest of the stream is one message.
"""

from __future__ import annotations

import struct
from binascii import crc32
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from llm_proxy.framing.whole import take_pieces

CODEC_NAME: Final = "eventstream"
"""The name of this codec in `CODECS` and in cassettes."""

CONTENT_TYPE: Final = "application/vnd.amazon.eventstream"

_LENGTHS_STRUCT: Final = struct.Struct(">II")
_PRELUDE_STRUCT: Final = struct.Struct(">III")
_CRC_STRUCT: Final = struct.Struct(">I")
_VALUE_LENGTH_STRUCT: Final = struct.Struct(">H")
PRELUDE_BYTES: Final = _PRELUDE_STRUCT.size
"""Size of a prelude."""
MAX_FRAME_BYTES: Final = (24 * 1024 + 128) * 1024 + 16
"""The longest frame that clients accept; a longer one is invalid."""
CRC_BYTES: Final = _CRC_STRUCT.size
"""Size of a checksum."""
_MIN_FRAME_BYTES: Final = PRELUDE_BYTES + CRC_BYTES
"""Size of a frame without headers and payload."""
_UNBOUNDED_BYTES: Final = 2**62
"""More bytes than any stream has."""

_BYTES_TYPE: Final = 6
_STRING_TYPE: Final = 7
_MAX_VALUE_BYTES: Final = 2**16 - 1
"""The longest value of a header."""
_MAX_NAME_BYTES: Final = 2**8 - 1
_FIXED_VALUE_BYTES: Final = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""Sizes of header values with a fixed size, by type: true, false, integers, timestamp, UUID."""


class EventStreamSplitter:
    """Splits a stream into frames; one longer than `limit` bytes is split there."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pending = bytearray()
        self._prelude = bytearray()
        """The received part of the current frame's prelude."""
        self._in_prelude = True
        self._missing_bytes = PRELUDE_BYTES
        """Bytes that the prelude, or else the frame, still lacks."""

    def feed(self, data: bytes) -> list[bytes]:
        """Take bytes as they arrive; return the frames that are complete."""
        messages: list[bytes] = []
        offset = 0
        while offset < len(data):
            piece = data[offset : offset + self._missing_bytes]
            offset += len(piece)
            self._pending += piece
            self._missing_bytes -= len(piece)
            if self._in_prelude:
                self._prelude += piece
            has_frame_ended = not self._missing_bytes and not self._in_prelude
            if has_frame_ended:
                self._begin_frame()
            elif not self._missing_bytes:
                size = frame_size(self._prelude) or _UNBOUNDED_BYTES
                self._in_prelude, self._missing_bytes = False, size - PRELUDE_BYTES
            min_bytes = 1 if has_frame_ended else self._limit
            messages += take_pieces(self._pending, self._limit, min_bytes)
        return messages

    def close(self) -> list[bytes]:
        """End the stream; return the remaining messages."""
        self._begin_frame()
        return take_pieces(self._pending, self._limit, 1)

    def _begin_frame(self) -> None:
        self._prelude.clear()
        self._in_prelude, self._missing_bytes = True, PRELUDE_BYTES


def frame_size(prelude: bytes | bytearray) -> int | None:
    """The size in bytes of the frame that a prelude begins; None if the prelude is invalid."""
    total, headers, checksum = _PRELUDE_STRUCT.unpack(prelude)
    is_valid = (
        checksum == crc32(prelude[: _LENGTHS_STRUCT.size]) and total >= _MIN_FRAME_BYTES + headers
    )
    return int(total) if is_valid else None


def begins_eventstream(start: bytes) -> bool:
    """Whether a body begins with a valid prelude, and so is an event stream."""
    return len(start) >= PRELUDE_BYTES and frame_size(start[:PRELUDE_BYTES]) is not None


def may_begin_frame(data: bytes) -> bool:
    """Whether a frame may begin with these bytes (at least one), by the length limit of frames."""
    return data[0] <= MAX_FRAME_BYTES >> 24


def is_intact_frame(message: bytes) -> bool:
    """Whether a message is a complete frame with a valid prelude and the right checksum."""
    if len(message) < _MIN_FRAME_BYTES or frame_size(message[:PRELUDE_BYTES]) != len(message):
        return False
    return _CRC_STRUCT.unpack_from(message, len(message) - CRC_BYTES) == (
        crc32(message[:-CRC_BYTES]),
    )


def payload_span(frame: bytes) -> tuple[int, int] | None:
    """The start and end offsets of a frame's payload; in a truncated frame it ends with the data.

    None if the headers are incomplete.  A complete prelude must be valid.
    """
    if len(frame) < PRELUDE_BYTES:
        return None
    total, headers = _LENGTHS_STRUCT.unpack_from(frame)
    begin = PRELUDE_BYTES + headers
    return None if len(frame) < begin else (begin, min(len(frame), total - CRC_BYTES))


def intact_payload_span(message: bytes) -> tuple[int, int] | None:
    """The start and end offsets of a message's payload; None if it is no intact frame."""
    return payload_span(message) if is_intact_frame(message) else None


@dataclass(frozen=True, slots=True)
class RawHeader:
    """An undecoded header of a frame, with its start and end offsets in the frame."""

    name: bytes
    value_type: int
    """The type number of the value."""
    value: bytes
    start: int
    end: int

    @property
    def has_variable_length(self) -> bool:
        """Whether the value has a variable length: bytes or text."""
        return self.value_type in (_BYTES_TYPE, _STRING_TYPE)

    def text_value(self) -> str | None:
        """The value if its type is text, else None.  Raises `ValueError` for invalid UTF-8."""
        return self.value.decode() if self.value_type == _STRING_TYPE else None


@dataclass(frozen=True, slots=True)
class Frame:
    """One parsed frame."""

    headers: tuple[tuple[str, str], ...]
    """The headers with text values, in order; providers send no others."""
    payload: bytes

    def header(self, name: str) -> str:
        """The value of a header; empty if it is absent."""
        return next((value for key, value in self.headers if key == name), "")


def parse_frame(message: bytes) -> Frame | None:
    """Parse one message of `EventStreamSplitter`; None if it is no frame that a client accepts.

    Both checksums, the lengths, and the headers (UTF-8, unique names) are checked.
    """
    if (span := intact_payload_span(message)) is None:
        return None
    payload_at, payload_end = span
    try:
        pairs = [
            (header.name.decode(), header.text_value())
            for header in parse_headers(message[:payload_at], PRELUDE_BYTES)
        ]
    except (ValueError, KeyError, IndexError, struct.error):
        return None
    if len({name for name, _ in pairs}) != len(pairs):
        return None
    texts = tuple((name, text) for name, text in pairs if text is not None)
    return Frame(texts, message[payload_at:payload_end])


def encode_frame(headers: Sequence[tuple[str, str]], payload: bytes) -> bytes:
    """Encode one frame with text headers.

    Raises `ValueError` if headers or payload are too long for a frame.
    """
    try:
        encoded_headers = b"".join(
            encode_header(name.encode(), _STRING_TYPE, value.encode()) for name, value in headers
        )
        lengths = _LENGTHS_STRUCT.pack(
            _MIN_FRAME_BYTES + len(encoded_headers) + len(payload), len(encoded_headers)
        )
    except struct.error:
        raise ValueError(
            "the headers or the payload exceed the maximum length of an event stream frame"
        ) from None
    body = lengths + _CRC_STRUCT.pack(crc32(lengths)) + encoded_headers + payload
    return body + _CRC_STRUCT.pack(crc32(body))


def parse_headers(data: bytes, offset: int) -> Iterator[RawHeader]:
    """The headers in `data` from an offset on.

    Raises `ValueError`, `KeyError`, `IndexError` or `struct.error` if they are malformed.
    """
    while offset < len(data):
        start = offset
        name, offset = _slice_at(data, offset + 1, data[offset])
        value_type, offset = data[offset], offset + 1
        if value_type in (_BYTES_TYPE, _STRING_TYPE):
            (length,) = _VALUE_LENGTH_STRUCT.unpack_from(data, offset)
            offset += _VALUE_LENGTH_STRUCT.size
        else:
            length = _FIXED_VALUE_BYTES[value_type]
        value, offset = _slice_at(data, offset, length)
        yield RawHeader(name, value_type, value, start, offset)


def _slice_at(data: bytes, offset: int, length: int) -> tuple[bytes, int]:
    """`length` bytes from an offset, and their end offset."""
    end = offset + length
    if end > len(data):
        raise ValueError("a header extends past the end of the header block")
    return data[offset:end], end


def encode_header(name: bytes, value_type: int, value: bytes) -> bytes:
    """Encode a header.  Raises `ValueError` if name or value is too long."""
    if len(name) > _MAX_NAME_BYTES or len(value) > _MAX_VALUE_BYTES:
        raise ValueError("the name or the value of an event stream header is too long")
    length = (
        _VALUE_LENGTH_STRUCT.pack(len(value)) if value_type in (_BYTES_TYPE, _STRING_TYPE) else b""
    )
    return bytes((len(name),)) + name + bytes((value_type,)) + length + value
