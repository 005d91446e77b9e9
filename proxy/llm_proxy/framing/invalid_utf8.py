"""Messages with a byte that is no UTF-8, in a framing that is still right."""

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


def garble(codec: str, message: bytes, texts: Collection[str] = ()) -> bytes | None:
    """One message of this codec, such as this one, with a byte that is no UTF-8 in a text of it.

    It is the first that is one of `texts`, or else the last.  Lines, lengths and checksums are
    right.  None where the message has no text.
    """
    if codec != eventstream.NAME:
        at = _place(message, 0, len(message), texts)
        return None if at is None else message[:at] + GARBLED + message[at:]
    begins = message[: eventstream.PRELUDE]
    is_frame = frame_edits.is_right(message) and eventstream.frame_size(begins) is not None
    payload = frame_edits.payload(message) if is_frame else None
    at = _place(message, *payload, texts) if payload is not None else None
    if at is None:
        return None
    return frame_edits.applied(message, frame_edits.fitted(message, [Edit(at, at, GARBLED)]))


def _place(data: bytes, begin: int, end: int, texts: Collection[str]) -> int | None:
    """The end of the text: no escape begins or ends there that the byte could part."""
    strings = _STRING.finditer(data, begin, end)
    values = [it for it in strings if it["text"] and it["end"] and not it["is_name"]]
    said = (it for it in values if _text(it["text"]) in texts)
    found = next(said, values[-1] if values else None)
    return None if found is None else found.end("text")


def _text(spelled: bytes) -> str | None:
    """The text that is spelled so within quotes; None where it is none."""
    try:
        text = orjson.loads(b'"' + spelled + b'"')
    except orjson.JSONDecodeError:
        return None
    return text if isinstance(text, str) else None
