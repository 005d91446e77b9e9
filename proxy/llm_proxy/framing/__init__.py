"""Splits bodies into messages without changing a byte.

A *codec* cuts a stream into messages: SSE events (comments included), NDJSON lines, elements of
a JSON array, frames of an AWS event stream, or one whole body.  Three rules hold for each of
them, whatever the bytes:

* Joined, the messages are the stream, byte for byte.
* The cuts do not depend on how the stream was split into reads.
* Time is linear, and memory bounded: a message longer than `MESSAGE_LIMIT` is cut there.

Codecs know no provider.  What a message means is the dialects' business.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

import orjson

from llm_proxy.framing import eventstream, ndjson, sse
from llm_proxy.framing.eventstream import EventStreamCodec
from llm_proxy.framing.json_array import JsonArrayCodec
from llm_proxy.framing.ndjson import NdjsonCodec
from llm_proxy.framing.sse import SseCodec
from llm_proxy.framing.whole import WholeCodec

MESSAGE_LIMIT: Final = 4 * 1024 * 1024
"""Bytes: the longest message.  Real ones stay under 1 MiB (an image in one event)."""


class Codec(Protocol):
    """An incremental cutter of one stream."""

    def feed(self, data: bytes) -> list[bytes]:
        """Take bytes as they arrive; give the messages that are complete."""

    def close(self) -> list[bytes]:
        """Say that nothing follows; give what is left."""


CODECS: Final[Mapping[str, Callable[[int], Codec]]] = {
    "sse": SseCodec,
    "ndjson": NdjsonCodec,
    eventstream.NAME: EventStreamCodec,
    "json-array": JsonArrayCodec,
    "whole": WholeCodec,
}
"""Each framing of messages under the name that a cassette stores."""

_BY_CONTENT_TYPE: Final = {
    sse.CONTENT_TYPE: "sse",
    "application/x-ndjson": "ndjson",
    "application/ndjson": "ndjson",
    "application/jsonl": "ndjson",
    "application/stream+json": "ndjson",
    eventstream.CONTENT_TYPE: eventstream.NAME,
}

_WHOLE: Final = ("whole", "json-array")
"""Codecs that a JSON document fits."""


def new_codec(name: str) -> Codec:
    """A fresh codec of that name, with the package's message limit.

    Raises `KeyError` for a name that is not in `CODECS`.
    """
    return CODECS[name](MESSAGE_LIMIT)


def codec_of_content_type(content_type: str | None) -> str:
    """The name of the codec for a content type; `whole` where it is none of the streaming ones."""
    essence = (content_type or "").partition(";")[0].strip().lower()
    return _BY_CONTENT_TYPE.get(essence, "whole")


def codec_of_bytes(codec: str, body: bytes) -> str:
    """The name of the codec that fits a body, or the beginning of one, whatever its label says.

    It is `codec`, the one of its label, unless the bytes are plainly of another framing.  One
    line of JSON is whole and NDJSON at once, so there the label decides.
    """
    if sse.begins_sse(body):
        return "sse"
    if eventstream.begins_eventstream(body):
        return eventstream.NAME
    if ndjson.begins_ndjson(body):
        return "ndjson"
    return codec if codec in _WHOLE else _codec_of_json_document(codec, body.strip())


def _codec_of_json_document(codec: str, body: bytes) -> str:
    """The codec of a body that one JSON document is all of; `codec` where it is none."""
    is_line = codec == "ndjson" and b"\n" not in body
    if is_line or not body.startswith((b"{", b"[")):
        return codec
    try:
        orjson.loads(body)
    except ValueError:
        return codec
    return "json-array" if body.startswith(b"[") else "whole"


def split_messages(name: str, body: bytes) -> list[bytes]:
    """All messages of a body that is there in full."""
    cutter = new_codec(name)
    return [*cutter.feed(body), *cutter.close()]
