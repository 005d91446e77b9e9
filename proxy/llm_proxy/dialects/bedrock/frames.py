"""The frames of Amazon Bedrock's streams: events and exceptions."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from typing import Final

from llm_proxy.dialects import response_encoding
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.bedrock import errors
from llm_proxy.dialects.lenient_json import (
    Fields,
    get_string,
    get_text,
    parse_object,
)
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.exchange import Headers
from llm_proxy.framing import eventstream
from llm_proxy.framing.eventstream import EventStreamSplitter, Frame, parse_frame
from llm_proxy.turns import Failure

CODEC: Final = eventstream.CODEC_NAME
"""The codec that splits frames."""

EVENT_TYPE: Final = ":event-type"
"""The frame header with the type of an event."""

CHUNK_EVENT: Final = "chunk"
"""The type of the events that wrap one of a model's own format."""

_MESSAGE_TYPE: Final = ":message-type"
_EXCEPTION_TYPE: Final = ":exception-type"
_STATUS_FIELD: Final = "originalStatusCode"
"""The field of an exception with the model's own status."""
_JSON: Final = (":content-type", "application/json")

_MAX_FRAME_BYTES: Final = 2**40
"""No limit, so that frames that were split at the limit for messages are rejoined."""


def splitter() -> EventStreamSplitter:
    """A splitter of a body's messages into its frames, whatever their length."""
    return EventStreamSplitter(_MAX_FRAME_BYTES)


def decode_frames(response: DialectResponse) -> Iterator[Frame | None]:
    """The frames; None for bytes that are not a frame."""
    codec = splitter()
    for message in response.framed_messages:
        yield from map(parse_frame, codec.feed(message))
    yield from map(parse_frame, codec.close())


def unwrap_chunk(fields: Fields) -> Fields:
    """The event of a model's own format in the payload of a `chunk`; empty if it is invalid."""
    try:
        return parse_object(base64.b64decode(get_string(fields, "bytes"), validate=True))
    except ValueError:
        return {}


def decode_exception(frame: Frame) -> Failure | None:
    """The failure of a frame of type `exception` (modeled by the service) or `error` (not)."""
    match frame.header(_MESSAGE_TYPE):
        case "exception":
            fields = parse_object(frame.payload)
            return Failure(
                message=errors.error_message(fields),
                type=frame.header(_EXCEPTION_TYPE),
                code=get_text(fields, _STATUS_FIELD),
            )
        case "error":
            return Failure(frame.header(":error-message"), type=frame.header(":error-code"))
        case _:
            return None


def encode_event_frame(name: str, payload: Document) -> bytes:
    """A frame of one event of this type."""
    headers = ((EVENT_TYPE, name), _JSON, (_MESSAGE_TYPE, "event"))
    return eventstream.encode_frame(headers, response_encoding.single_line_json(payload))


def encode_chunk_frame(native_event: Document) -> bytes:
    """A `chunk` frame, which wraps an event of a model's own format in base64."""
    encoded = base64.b64encode(response_encoding.single_line_json(native_event))
    return encode_event_frame(CHUNK_EVENT, {"bytes": encoded.decode()})


def stream_response(
    frames: Iterable[bytes], failure: Failure | None, headers: Headers
) -> DialectResponse:
    """The response of these frames; a failure ends it, whose type clients must know."""
    messages = [*frames]
    if failure is not None:
        document: Document = {"message": failure.message}
        if failure.code:
            document[_STATUS_FIELD] = int(failure.code)
        frame_headers = ((_EXCEPTION_TYPE, failure.type), _JSON, (_MESSAGE_TYPE, "exception"))
        payload = response_encoding.single_line_json(document)
        messages.append(eventstream.encode_frame(frame_headers, payload))
    return response_encoding.stream_response(CODEC, eventstream.CONTENT_TYPE, messages, headers)
