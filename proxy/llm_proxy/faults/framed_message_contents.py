"""Reads the content of stream messages, independent of their framing."""

from __future__ import annotations

from base64 import b64decode
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.exchange import ResponseHead, header_value
from llm_proxy.framing import eventstream, sse

_TYPE_FIELDS: Final = ("type", "event_type")
_TYPE_HEADERS: Final = (":event-type", ":exception-type")
_BASE64_FIELD: Final = "bytes"


def content_coding(head: ResponseHead) -> str:
    """The content coding of the body (such as `gzip`), in lower case; empty where it has none."""
    coding = (header_value(head.headers, "content-encoding") or "").strip().lower()
    return "" if coding == "identity" else coding


def message_json_fields(codec: str, message: bytes) -> Fields:
    """The fields of the JSON object in a message; empty where it contains none.

    An event stream frame may wrap another event as base64: then the fields are those of that event.
    """
    match codec:
        case "sse":
            return lenient_json.parse_object(sse.parse_event(message).data or b"")
        case "json-array":
            return lenient_json.parse_object(message.lstrip(b"\xef\xbb\xbf[, \t\r\n"))
        case eventstream.CODEC_NAME:
            frame = eventstream.parse_frame(message)
            return _unwrap_base64_event(
                lenient_json.parse_object(frame.payload if frame is not None else b"")
            )
        case _:
            return lenient_json.parse_object(message)


def declared_event_types(codec: str, message: bytes) -> frozenset[str]:
    """The event types of a message: by its framing (event name or header), and by its JSON."""
    types = {
        lenient_json.str_or_empty(message_json_fields(codec, message).get(field_name))
        for field_name in _TYPE_FIELDS
    }
    if codec == "sse":
        types.add(sse.parse_event(message).event_type)
    frame = eventstream.parse_frame(message) if codec == eventstream.CODEC_NAME else None
    if frame is not None:
        types |= {frame.header(header_name) for header_name in _TYPE_HEADERS}
    return frozenset(types - {""})


def _unwrap_base64_event(fields: Fields) -> Fields:
    try:
        wrapped = b64decode(lenient_json.str_or_empty(fields.get(_BASE64_FIELD)), validate=True)
    except ValueError:
        return fields
    return lenient_json.parse_object(wrapped) or fields
