"""Inserts invalid UTF-8 into a message and keeps its framing intact."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

import orjson

from llm_proxy.framing import eventstream, frame_edits
from llm_proxy.framing.frame_edits import ByteEdit

INVALID_BYTE: Final = b"\xff"
"""A byte that never occurs in UTF-8."""

_JSON_STRING: Final = re.compile(
    rb'"(?P<text>[^"\\]*(?:\\.[^"\\]*)*)(?P<end>"?)(?P<is_name>\s*:)?', re.DOTALL
)
"""A JSON string, perhaps unterminated; followed by a colon it is the name of a member."""


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
    payload = frame_edits.intact_payload_span(message)
    offset = _insertion_offset(message, *payload, preferred_texts) if payload is not None else None
    if offset is None:
        return None
    return frame_edits.apply_edits(
        message, frame_edits.with_envelope_edits(message, [ByteEdit(offset, offset, INVALID_BYTE)])
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
