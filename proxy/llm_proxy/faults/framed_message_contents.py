"""Reads the content of stream messages, independent of their framing."""

from __future__ import annotations

from base64 import b64decode

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.base import Dialect, DialectResponse
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.exchange import ResponseHead, header_value
from llm_proxy.framing import eventstream, sse


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
            fields = lenient_json.parse_object(frame.payload if frame is not None else b"")
            try:
                wrapped = b64decode(lenient_json.str_or_empty(fields.get("bytes")), validate=True)
            except ValueError:
                return fields
            return lenient_json.parse_object(wrapped) or fields
        case _:
            return lenient_json.parse_object(message)


def declared_event_types(codec: str, message: bytes) -> frozenset[str]:
    """The event types of a message: by its framing (event name or header), and by its JSON."""
    fields = message_json_fields(codec, message)
    types = {lenient_json.str_or_empty(fields.get(name)) for name in ("type", "event_type")}
    if codec == "sse":
        types.add(sse.parse_event(message).event_type)
    elif codec == eventstream.CODEC_NAME and (frame := eventstream.parse_frame(message)):
        types |= {frame.header(name) for name in (":event-type", ":exception-type")}
    return frozenset(types - {""})


def event_types(dialect: Dialect, head: ResponseHead, codec: str, message: bytes) -> frozenset[str]:
    """The declared event types of a message, `finish` and `done`.

    `finish` is a message that contains the finish reason, `done` one that ends a stream, such as
    `[DONE]`.
    """
    types = set(declared_event_types(codec, message))
    is_done_event = codec == "sse" and sse.is_done_message(message)
    if is_done_event or message_json_fields(codec, message).get("done") is True:
        types.add("done")
    turns = dialect.decode_response(DialectResponse(head, codec, (message,)))
    if any(turn.finish is not None for turn in turns):
        types.add("finish")
    return frozenset(types)
