"""Splits bodies into messages without changing a byte.

A *codec* splits a stream into messages: SSE events (comments included), NDJSON lines, elements of
a JSON array, frames of an AWS event stream, or one whole body.  Three rules hold for each of
them, whatever the bytes:

* Joined, the messages are the stream, byte for byte.
* The message boundaries do not depend on how the stream was split into reads.
* Time is linear, and memory bounded: a message longer than `MAX_MESSAGE_BYTES` is split there.

Codecs know no provider.  Dialects interpret the messages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

import orjson

from llm_proxy.framing import eventstream, ndjson, sse
from llm_proxy.framing.eventstream import EventStreamSplitter
from llm_proxy.framing.json_array import JsonArraySplitter
from llm_proxy.framing.ndjson import NdjsonSplitter
from llm_proxy.framing.sse import SseSplitter
from llm_proxy.framing.whole import WholeBodySplitter

MAX_MESSAGE_BYTES: Final = 4 * 1024 * 1024
"""The longest message.  Real ones stay under 1 MiB (an image in one event)."""


class MessageSplitter(Protocol):
    """An incremental splitter of one stream into messages."""

    def feed(self, data: bytes) -> list[bytes]:
        """Take bytes as they arrive; return the messages that are complete."""

    def close(self) -> list[bytes]:
        """End the stream; return the remaining messages."""


CODECS: Final[Mapping[str, Callable[[int], MessageSplitter]]] = {
    "sse": SseSplitter,
    "ndjson": NdjsonSplitter,
    eventstream.CODEC_NAME: EventStreamSplitter,
    "json-array": JsonArraySplitter,
    "whole": WholeBodySplitter,
}
"""The codec classes by the name that a cassette stores; called with the message limit in bytes."""

_CODEC_BY_CONTENT_TYPE: Final = {
    sse.CONTENT_TYPE: "sse",
    "application/x-ndjson": "ndjson",
    "application/ndjson": "ndjson",
    "application/jsonl": "ndjson",
    "application/stream+json": "ndjson",
    eventstream.CONTENT_TYPE: eventstream.CODEC_NAME,
}

_JSON_DOCUMENT_CODECS: Final = ("whole", "json-array")
"""Codecs for a body that is one JSON document."""


def new_codec(name: str) -> MessageSplitter:
    """A new codec by its name, with the package's message limit.

    Raises `KeyError` for a name that is not in `CODECS`.
    """
    return CODECS[name](MAX_MESSAGE_BYTES)


def codec_name_for_content_type(content_type: str | None) -> str:
    """The name of the codec for a content type; `whole` if it is no streaming one."""
    essence = (content_type or "").partition(";")[0].strip().lower()
    return _CODEC_BY_CONTENT_TYPE.get(essence, "whole")


def codec_name_for_body(labelled_codec: str, body: bytes) -> str:
    """The name of the codec that fits a body, or the beginning of one.

    It is `labelled_codec`, that of the content type, unless the bytes clearly have another
    framing.  One line of JSON fits both `whole` and `ndjson`: there the content type decides.
    """
    if sse.begins_sse(body):
        return "sse"
    if eventstream.begins_eventstream(body):
        return eventstream.CODEC_NAME
    if ndjson.begins_ndjson(body):
        return "ndjson"
    if labelled_codec in _JSON_DOCUMENT_CODECS:
        return labelled_codec
    document = body.strip()
    is_line = labelled_codec == "ndjson" and b"\n" not in document
    if is_line or not document.startswith((b"{", b"[")):
        return labelled_codec
    try:
        orjson.loads(document)
    except ValueError:
        return labelled_codec
    return "json-array" if document.startswith(b"[") else "whole"


def split_messages(codec_name: str, body: bytes) -> list[bytes]:
    """All messages of a complete body."""
    codec = new_codec(codec_name)
    return [*codec.feed(body), *codec.close()]
