"""Truncates the JSON of a message and keeps its framing intact."""

from __future__ import annotations

import re
from typing import Final

import orjson

from llm_proxy.framing import eventstream, frame_edits
from llm_proxy.framing.frame_edits import Edit

_BOM: Final = b"\xef\xbb\xbf"
_LINES: Final = re.compile(rb"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+")
_DATA: Final = re.compile(rb"data(?::|\Z)")
_VALUE: Final = re.compile(rb"data:? ?")
_BEFORE_ELEMENT: Final = re.compile(rb"\A(?:\xef\xbb\xbf)?\s*[\[,]?\s*")
_CONTINUES: Final = range(0x80, 0xC0)
"""Bytes of UTF-8 that begin no character."""


def truncate_json(codec: str, message: bytes) -> bytes:
    """One message of this codec, such as this one, whose content is no JSON.

    Its framing is kept: the lines and the name of an event, the line end, the lengths and
    checksums of a frame.  Half of its content is kept, whole characters of it.
    """
    match codec:
        case "sse":
            return _truncate_event(message)
        case "ndjson":
            line, end = _split_line_end(message)
            return _half_of_json(line) + end
        case eventstream.NAME:
            return _truncate_frame(message)
        case "json-array":
            element = _BEFORE_ELEMENT.sub(b"", message)
            return message.removesuffix(element) + _half_of_json(element)
        case _:
            return _half_of_json(message)


def _half_of_json(content: bytes) -> bytes:
    """The first half, or an open bracket where half of it would be JSON, or nothing."""
    content = content.strip()
    cut = len(content) // 2
    while cut > 0 and content[cut] in _CONTINUES:
        cut -= 1
    half = content[:cut]
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
    """The event with half of its data; all its other lines stay."""
    mark = _BOM if message.startswith(_BOM) else b""
    lines = [_split_line_end(value) for value in _LINES.findall(message.removeprefix(_BOM))]
    data = [n for n, (line, _) in enumerate(lines) if _DATA.match(line)]
    half = _half_of_json(b"\n".join(_VALUE.sub(b"", lines[n][0], count=1) for n in data))
    line_end = (lines[data[0]][1] if data else b"") or b"\n"
    content = b"".join(b"data: " + line + line_end for line in half.split(b"\n"))
    begun = (n for n, (line, _) in enumerate(lines) if line)
    at = next(iter(data), next(begun, 0))
    before = b"".join(line + end for line, end in lines[:at])
    after = b"".join(line + end for n, (line, end) in enumerate(lines) if n >= at and n not in data)
    return mark + before + content + after


def _truncate_frame(message: bytes) -> bytes:
    """The frame with half of its payload, lengths and checksums to fit; what is none, in half."""
    begins = message[: eventstream.PRELUDE]
    is_frame = frame_edits.is_intact(message) and eventstream.frame_size(begins) is not None
    place = frame_edits.payload_span(message) if is_frame else None
    if place is None:
        return _half_of_json(message)
    begin, end = place
    edit = Edit(begin, end, _half_of_json(message[begin:end]))
    return frame_edits.apply_edits(message, frame_edits.with_envelope_edits(message, [edit]))
