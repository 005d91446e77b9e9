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

_VALUE: Final = re.compile(rb'"((?:[^"\\]|\\.)+)"(?!\s*:)', re.DOTALL)
"""A string of JSON that says something, and is no name of a field."""


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
    values = list(_VALUE.finditer(data, begin, end))
    said = (it for it in values if _text(it[0]) in texts)
    found = next(said, values[-1] if values else None)
    return None if found is None else found.end(1)


def _text(spelled: bytes) -> str | None:
    """The text that a string of JSON spells; None where it is none."""
    try:
        text = orjson.loads(spelled)
    except orjson.JSONDecodeError:
        return None
    return text if isinstance(text, str) else None
