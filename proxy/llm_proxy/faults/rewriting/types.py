"""The types of event that a message has, for faults that strike before one of a type."""

from __future__ import annotations

from llm_proxy.dialects import reading
from llm_proxy.dialects.base import Dialect, Response
from llm_proxy.exchange import Head
from llm_proxy.framing import eventstream, sse

DONE = "done"
"""The type of the message that ends a stream, such as `[DONE]`."""
FINISH = "finish"
"""The type of a message that says why the model stopped."""

_NAMES = ("type", "event_type")
_HEADERS = (":event-type", ":exception-type")


def types(dialect: Dialect, head: Head, codec: str, message: bytes) -> frozenset[str]:
    """Its types: what its framing calls it, what it calls itself, `finish` and `done`."""
    found: set[str] = set()
    content = message
    match codec:
        case "sse":
            event = sse.read_event(message)
            found.add(event.event)
            content = event.data or b""
            if sse.is_done(message):
                found.add(DONE)
        case eventstream.NAME:
            frame = eventstream.read_frame(message)
            if frame is not None:
                found |= {frame.header(name) for name in _HEADERS}
                content = frame.payload
        case _:
            pass
    document = reading.document(content)
    found |= {reading.text(document.get(name)) for name in _NAMES}
    if document.get("done") is True:
        found.add(DONE)
    turns = dialect.turns(Response(head, codec, (message,)))
    if any(turn.finish is not None for turn in turns):
        found.add(FINISH)
    return frozenset(found - {""})
