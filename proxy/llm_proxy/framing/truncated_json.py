"""Truncates the JSON of a message and keeps its framing intact."""

from __future__ import annotations

import re
from typing import Final

import orjson

from llm_proxy.framing import eventstream, frame_edits
from llm_proxy.framing.frame_edits import ByteEdit

_BOM: Final = b"\xef\xbb\xbf"
_LINE: Final = re.compile(rb"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+")
_DATA_LINE: Final = re.compile(rb"data(?::|\Z)")
_DATA_PREFIX: Final = re.compile(rb"data:? ?")
_BEFORE_ELEMENT: Final = re.compile(rb"\A(?:\xef\xbb\xbf)?\s*[\[,]?\s*")
_UTF8_CONTINUATION_BYTES: Final = range(0x80, 0xC0)
"""UTF-8 continuation bytes."""


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
            return _truncate_frame(message)
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
    return half if half.strip() and not _is_json(half) else b"{"


def _is_json(text: bytes) -> bool:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True


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


def _truncate_frame(message: bytes) -> bytes:
    """The frame with half of its payload and valid lengths and checksums; else half the message."""
    span = frame_edits.intact_payload_span(message)
    if span is None:
        return _half_of_json(message)
    begin, end = span
    edit = ByteEdit(begin, end, _half_of_json(message[begin:end]))
    return frame_edits.apply_edits(message, frame_edits.with_envelope_edits(message, [edit]))
