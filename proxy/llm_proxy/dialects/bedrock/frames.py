"""Encodes the frames of Amazon Bedrock's streams: events and exceptions."""

from __future__ import annotations

from base64 import b64encode
from typing import Final

from llm_proxy.dialects import response_encoding
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.framing import eventstream
from llm_proxy.turns import Failure

CODEC: Final = eventstream.CODEC_NAME
"""The codec that splits frames."""

MESSAGE_TYPE: Final = ":message-type"
EVENT_TYPE: Final = ":event-type"
EXCEPTION_TYPE: Final = ":exception-type"
"""The frame headers: event or exception, and the type of either."""

EVENT: Final = "event"
EXCEPTION: Final = "exception"
"""Values of `MESSAGE_TYPE`."""

STATUS_FIELD: Final = "originalStatusCode"
"""The field of an exception with the model's own status."""

CHUNK_EVENT: Final = "chunk"
"""The type of the events that wrap one of a model's own format."""

_JSON: Final = (":content-type", "application/json")


def encode_event_frame(name: str, payload: Document) -> bytes:
    """A frame of one event of this type."""
    headers = ((EVENT_TYPE, name), _JSON, (MESSAGE_TYPE, EVENT))
    return eventstream.encode_frame(headers, response_encoding.single_line_json(payload))


def encode_chunk_frame(native_event: Document) -> bytes:
    """A `chunk` frame, which wraps an event of a model's own format in base64."""
    return encode_event_frame(
        CHUNK_EVENT, {"bytes": b64encode(response_encoding.single_line_json(native_event)).decode()}
    )


def encode_exception_frame(failure: Failure) -> bytes:
    """The frame of an error that ends a stream; clients must know its type."""
    headers = ((EXCEPTION_TYPE, failure.type), _JSON, (MESSAGE_TYPE, EXCEPTION))
    document: Document = {"message": failure.message}
    if failure.code:
        document[STATUS_FIELD] = int(failure.code)
    return eventstream.encode_frame(headers, response_encoding.single_line_json(document))
