"""Encodes the frames of Amazon Bedrock's streams: events and exceptions."""

from __future__ import annotations

from base64 import b64encode
from typing import Final

from llm_proxy.dialects import response_encoding
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.framing import eventstream
from llm_proxy.turns import Failure

CODEC: Final = eventstream.NAME
"""The codec that cuts frames."""

MESSAGE_TYPE: Final = ":message-type"
EVENT_TYPE: Final = ":event-type"
EXCEPTION_TYPE: Final = ":exception-type"
"""The headers that say what a frame is: an event or an exception, and of which type."""

EVENT: Final = "event"
EXCEPTION: Final = "exception"
"""Types of messages."""

STATUS: Final = "originalStatusCode"
"""The field of an exception that tells the status of the model's own."""

CHUNK: Final = "chunk"
"""The type of the events that hold one of a model's own."""

_JSON: Final = (":content-type", "application/json")


def encode_event_frame(name: str, payload: Document) -> bytes:
    """An event of this type."""
    headers = ((EVENT_TYPE, name), _JSON, (MESSAGE_TYPE, EVENT))
    return eventstream.encode_frame(headers, response_encoding.json_line(payload))


def encode_chunk_frame(native_event: Document) -> bytes:
    """An event of a model's own, wrapped."""
    return encode_event_frame(
        CHUNK, {"bytes": b64encode(response_encoding.json_line(native_event)).decode()}
    )


def encode_exception_frame(failure: Failure) -> bytes:
    """An error that ends a stream; its type is one that clients know."""
    headers = ((EXCEPTION_TYPE, failure.type), _JSON, (MESSAGE_TYPE, EXCEPTION))
    document: Document = {"message": failure.message}
    if failure.code:
        document[STATUS] = int(failure.code)
    return eventstream.encode_frame(headers, response_encoding.json_line(document))
