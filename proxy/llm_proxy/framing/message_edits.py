"""Edits of messages that keep their framing intact: truncated JSON, invalid UTF-8, another order.

Intact are the lines and the name of an event, line ends, the commas of an array, the lengths and
checksums of a frame.
"""

from __future__ import annotations

import re
import struct
from binascii import crc32
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import orjson

from llm_proxy.framing import eventstream
from llm_proxy.framing.eventstream import CRC_BYTES, PRELUDE_BYTES

INVALID_BYTE: Final = b"\xff"
"""A byte that never occurs in UTF-8."""

_BOM: Final = b"\xef\xbb\xbf"
_LINE: Final = re.compile(rb"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+")
_LINE_END: Final = re.compile(rb"(?:\r\n?|\n)\Z")
_BLANK_LINE: Final = re.compile(rb"(?:\r\n|\n|\r(?!\n)){2}\Z")
_DATA_LINE: Final = re.compile(rb"data(?::|\Z)")
_DATA_PREFIX: Final = re.compile(rb"data:? ?")
_BEFORE_ELEMENT: Final = re.compile(rb"\A(?:\xef\xbb\xbf)?\s*[\[,]?\s*")
_UTF8_CONTINUATION_BYTES: Final = range(0x80, 0xC0)
_JSON_STRING: Final = re.compile(
    rb'"(?P<text>[^"\\]*(?:\\.[^"\\]*)*)(?P<end>"?)(?P<is_name>\s*:)?', re.DOTALL
)
"""A JSON string, perhaps unterminated; followed by a colon it is the name of a member."""


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


def with_envelope_edits(frame: bytes, edits: Sequence[ByteEdit]) -> list[ByteEdit]:
    """Edits of a frame's headers and payload, with the edits of lengths and checksums added.

    A truncated frame stays truncated, and a wrong checksum stays wrong.
    """
    total, length = struct.unpack_from(">II", frame)
    headers_growth = sum(edit.growth_bytes for edit in edits if edit.end <= PRELUDE_BYTES + length)
    lengths = struct.pack(
        ">II", total + sum(edit.growth_bytes for edit in edits), length + headers_growth
    )
    prelude = ByteEdit(
        0,
        PRELUDE_BYTES,
        lengths + crc32(lengths).to_bytes(CRC_BYTES, "big"),
    )
    edits_before_checksum = [prelude, *edits]
    if len(frame) < total:
        return edits_before_checksum
    end = total - CRC_BYTES
    checksum_difference = crc32(frame[:end]) ^ int.from_bytes(frame[end:], "big")
    checksum = crc32(apply_edits(frame[:end], edits_before_checksum)) ^ checksum_difference
    return [
        *edits_before_checksum,
        ByteEdit(end, total, checksum.to_bytes(CRC_BYTES, "big")),
    ]


def truncate_json(codec: str, message: bytes) -> bytes:
    """The message with the first half of its content, so that it is no longer JSON.

    Its framing is kept valid: the lines and the name of an event, the line end, the lengths and
    checksums of a frame.  Characters are not split.
    """
    match codec:
        case "sse":
            return _truncate_event(message)
        case "ndjson":
            line, end = _split_line_end(message)
            return _half_of_json(line) + end
        case eventstream.CODEC_NAME:
            if (span := eventstream.intact_payload_span(message)) is None:
                return _half_of_json(message)
            half = ByteEdit(*span, _half_of_json(message[slice(*span)]))
            return apply_edits(message, with_envelope_edits(message, [half]))
        case "json-array":
            element = _BEFORE_ELEMENT.sub(b"", message)
            return message.removesuffix(element) + _half_of_json(element)
        case _:
            return _half_of_json(message)


def _half_of_json(content: bytes) -> bytes:
    """The first half; an opening bracket if the half would be valid JSON or empty."""
    content = content.strip()
    cut_offset = len(content) // 2
    while cut_offset > 0 and content[cut_offset] in _UTF8_CONTINUATION_BYTES:
        cut_offset -= 1
    half = content[:cut_offset]
    try:
        orjson.loads(half)
    except orjson.JSONDecodeError:
        return half if half.strip() else b"{"
    return b"{"


def _split_line_end(line: bytes) -> tuple[bytes, bytes]:
    content = line.rstrip(b"\r\n")
    return content, line[len(content) :]


def _truncate_event(message: bytes) -> bytes:
    """The event with half of its data; its other lines stay."""
    bom = _BOM if message.startswith(_BOM) else b""
    lines = [_split_line_end(value) for value in _LINE.findall(message.removeprefix(_BOM))]
    data_rows = [n for n, (line, _) in enumerate(lines) if _DATA_LINE.match(line)]
    half = _half_of_json(b"\n".join(_DATA_PREFIX.sub(b"", lines[n][0], count=1) for n in data_rows))
    line_end = (lines[data_rows[0]][1] if data_rows else b"") or b"\n"
    content = b"".join(b"data: " + line + line_end for line in half.split(b"\n"))
    nonblank_rows = (n for n, (line, _) in enumerate(lines) if line)
    first_row = next(iter(data_rows), next(nonblank_rows, 0))
    before = b"".join(line + end for line, end in lines[:first_row])
    after = b"".join(
        line + end for n, (line, end) in enumerate(lines) if n >= first_row and n not in data_rows
    )
    return bom + before + content + after


def insert_invalid_utf8(
    codec: str, message: bytes, preferred_texts: Collection[str] = ()
) -> bytes | None:
    """The message with a byte that is invalid UTF-8 at the end of one of its JSON strings.

    It is the first string that equals one of `preferred_texts`, or else the last.  Lines, lengths
    and checksums stay right.  None if the message has no such string.
    """
    if codec != eventstream.CODEC_NAME:
        offset = _insertion_offset(message, 0, len(message), preferred_texts)
        return None if offset is None else message[:offset] + INVALID_BYTE + message[offset:]
    payload = eventstream.intact_payload_span(message)
    offset = _insertion_offset(message, *payload, preferred_texts) if payload is not None else None
    if offset is None:
        return None
    return apply_edits(
        message, with_envelope_edits(message, [ByteEdit(offset, offset, INVALID_BYTE)])
    )


def _insertion_offset(
    data: bytes, begin: int, end: int, preferred_texts: Collection[str]
) -> int | None:
    """The offset of the end of the chosen string, where the byte splits no escape sequence."""
    strings = _JSON_STRING.finditer(data, begin, end)
    values = [
        string for string in strings if string["text"] and string["end"] and not string["is_name"]
    ]
    preferred = (value for value in values if _decode_json_string(value["text"]) in preferred_texts)
    chosen = next(preferred, values[-1] if values else None)
    return None if chosen is None else chosen.end("text")


def _decode_json_string(source: bytes) -> str | None:
    """Decode the content of a JSON string; None if it is invalid."""
    try:
        text = orjson.loads(b'"' + source + b'"')
    except orjson.JSONDecodeError:
        return None
    return text if isinstance(text, str) else None


def rearrange_messages(codec: str, messages: Sequence[bytes], order: Sequence[int]) -> list[bytes]:
    """Rearrange consecutive messages of a body with this codec.

    `order` lists their indexes, some perhaps several times.  The separators between messages (a
    blank line, a line end, a comma) are kept valid.  Raises `ValueError` if a message cannot be
    moved: the end of an array.
    """
    reordered = [messages[number] for number in order]
    match codec:
        case "sse":  # the last event of a body may lack the blank line at its end
            return [*map(_terminate_event, reordered[:-1]), *reordered[-1:]]
        case "ndjson":
            ended = [line if _LINE_END.search(line) else line + b"\n" for line in reordered[:-1]]
            return [*ended, *reordered[-1:]]
        case "json-array":  # the opening bracket stays in front, and commas between elements
            elements = [_BEFORE_ELEMENT.sub(b"", message) for message in reordered]
            if not all(each.endswith((b"}", b"]")) and each != b"]" for each in elements):
                raise ValueError("cannot move the last message, because it closes the JSON array")
            opening = messages[0].removesuffix(_BEFORE_ELEMENT.sub(b"", messages[0]))
            return [opening + elements[0], *(b"," + element for element in elements[1:])]
        case _:
            return reordered


def _terminate_event(event: bytes) -> bytes:
    if _BLANK_LINE.search(event):
        return event
    return event + (b"\n" if _LINE_END.search(event) else b"\n\n")
