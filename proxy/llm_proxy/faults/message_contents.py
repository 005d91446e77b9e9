"""What the messages of a stream hold, whatever frames them."""

from __future__ import annotations

from base64 import b64decode
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.exchange import Head, header
from llm_proxy.framing import eventstream, sse

_NAMES: Final = ("type", "event_type")
_HEADERS: Final = (":event-type", ":exception-type")
_WRAPPED: Final = "bytes"


def packed(head: Head) -> str:
    """The content coding that hides what a body holds; empty where it has none."""
    coding = (header(head.headers, "content-encoding") or "").strip().lower()
    return "" if coding == "identity" else coding


def document(codec: str, message: bytes) -> Fields:
    """The fields of the JSON object that a message holds; none where it holds none.

    A frame may wrap another event as base64: then they are those of that event.
    """
    match codec:
        case "sse":
            return lenient_json.document(sse.read_event(message).data or b"")
        case "json-array":
            return lenient_json.document(message.lstrip(b"\xef\xbb\xbf[, \t\r\n"))
        case eventstream.NAME:
            frame = eventstream.read_frame(message)
            return _unwrapped(lenient_json.document(frame.payload if frame is not None else b""))
        case _:
            return lenient_json.document(message)


def names(codec: str, message: bytes) -> frozenset[str]:
    """What a message is called by its framing, and by itself."""
    found = {lenient_json.text(document(codec, message).get(name)) for name in _NAMES}
    if codec == "sse":
        found.add(sse.read_event(message).event)
    frame = eventstream.read_frame(message) if codec == eventstream.NAME else None
    if frame is not None:
        found |= {frame.header(name) for name in _HEADERS}
    return frozenset(found - {""})


def _unwrapped(said: Fields) -> Fields:
    try:
        wrapped = b64decode(lenient_json.text(said.get(_WRAPPED)), validate=True)
    except ValueError:
        return said
    return lenient_json.document(wrapped) or said
