"""The event types of a message, for faults located by type."""

from __future__ import annotations

from llm_proxy.dialects.base import Dialect, DialectResponse
from llm_proxy.exchange import ResponseHead
from llm_proxy.faults import message_contents
from llm_proxy.framing import sse

DONE = "done"
"""The type of the message that ends a stream, such as `[DONE]`."""
FINISH = "finish"
"""The type of a message that says why the model stopped."""


def event_types(dialect: Dialect, head: ResponseHead, codec: str, message: bytes) -> frozenset[str]:
    """Its types: what its framing calls it, what it calls itself, `finish` and `done`."""
    found = set(message_contents.message_types(codec, message))
    is_last = codec == "sse" and sse.is_done(message)
    if is_last or message_contents.message_object(codec, message).get("done") is True:
        found.add(DONE)
    turns = dialect.decode(DialectResponse(head, codec, (message,)))
    if any(turn.finish is not None for turn in turns):
        found.add(FINISH)
    return frozenset(found)
