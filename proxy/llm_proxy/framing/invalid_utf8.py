"""Inserts invalid UTF-8 into a message and keeps its framing intact."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

import orjson

from llm_proxy.framing import eventstream, frame_edits
from llm_proxy.framing.frame_edits import Edit

GARBLED: Final = b"\xff"
"""A byte that stands nowhere in UTF-8."""

_STRING: Final = re.compile(
    rb'"(?P<text>[^"\\]*(?:\\.[^"\\]*)*)(?P<end>"?)(?P<is_name>\s*:)?', re.DOTALL
)
"""A string of JSON, which may never end; with a colon behind it, the name of a field."""


def insert_invalid_utf8(codec: str, message: bytes, texts: Collection[str] = ()) -> bytes | None:
    """One message of this codec, such as this one, with a byte that is no UTF-8 in a text of it.

    It is the first that is one of `texts`, or else the last.  Lines, lengths and checksums are
    right.  None where the message has no text.
    """
    if codec != eventstream.NAME:
        at = _insertion_offset(message, 0, len(message), texts)
        return None if at is None else message[:at] + GARBLED + message[at:]
    begins = message[: eventstream.PRELUDE]
    is_frame = frame_edits.is_intact(message) and eventstream.frame_size(begins) is not None
    payload = frame_edits.payload_span(message) if is_frame else None
    at = _insertion_offset(message, *payload, texts) if payload is not None else None
    if at is None:
        return None
    return frame_edits.apply_edits(
        message, frame_edits.with_envelope_edits(message, [Edit(at, at, GARBLED)])
    )


def _insertion_offset(data: bytes, begin: int, end: int, texts: Collection[str]) -> int | None:
    """The end of the text: no escape begins or ends there that the byte could part."""
    strings = _STRING.finditer(data, begin, end)
    values = [
        string for string in strings if string["text"] and string["end"] and not string["is_name"]
    ]
    said = (value for value in values if _decode_json_string(value["text"]) in texts)
    found = next(said, values[-1] if values else None)
    return None if found is None else found.end("text")


def _decode_json_string(spelled: bytes) -> str | None:
    """The text that is spelled so within quotes; None where it is none."""
    try:
        text = orjson.loads(b'"' + spelled + b'"')
    except orjson.JSONDecodeError:
        return None
    return text if isinstance(text, str) else None
