"""Reads the content of stream messages, independent of their framing."""

from __future__ import annotations

from base64 import b64decode
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.exchange import ResponseHead, header_value
from llm_proxy.framing import eventstream, sse

_NAMES: Final = ("type", "event_type")
_HEADERS: Final = (":event-type", ":exception-type")
_WRAPPED: Final = "bytes"


def content_coding(head: ResponseHead) -> str:
    """The content coding that hides what a body holds; empty where it has none."""
    coding = (header_value(head.headers, "content-encoding") or "").strip().lower()
    return "" if coding == "identity" else coding


def message_object(codec: str, message: bytes) -> Fields:
    """The fields of the JSON object that a message holds; none where it holds none.

    A frame may wrap another event as base64: then they are those of that event.
    """
    match codec:
        case "sse":
            return lenient_json.parse_object(sse.parse_event(message).data or b"")
        case "json-array":
            return lenient_json.parse_object(message.lstrip(b"\xef\xbb\xbf[, \t\r\n"))
        case eventstream.NAME:
            frame = eventstream.parse_frame(message)
            return _unwrap_event(
                lenient_json.parse_object(frame.payload if frame is not None else b"")
            )
        case _:
            return lenient_json.parse_object(message)


def message_types(codec: str, message: bytes) -> frozenset[str]:
    """What a message is called by its framing, and by itself."""
    found = {lenient_json.str_or_empty(message_object(codec, message).get(name)) for name in _NAMES}
    if codec == "sse":
        found.add(sse.parse_event(message).encode_event)
    frame = eventstream.parse_frame(message) if codec == eventstream.NAME else None
    if frame is not None:
        found |= {frame.header(name) for name in _HEADERS}
    return frozenset(found - {""})


def _unwrap_event(fields: Fields) -> Fields:
    try:
        wrapped = b64decode(lenient_json.str_or_empty(fields.get(_WRAPPED)), validate=True)
    except ValueError:
        return fields
    return lenient_json.parse_object(wrapped) or fields
