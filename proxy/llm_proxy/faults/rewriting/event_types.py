"""The types of event that a message has, for faults that strike before one of a type."""

from __future__ import annotations

from llm_proxy.dialects.base import Dialect, Response
from llm_proxy.exchange import Head
from llm_proxy.faults import message_contents
from llm_proxy.framing import sse

DONE = "done"
"""The type of the message that ends a stream, such as `[DONE]`."""
FINISH = "finish"
"""The type of a message that says why the model stopped."""


def types(dialect: Dialect, head: Head, codec: str, message: bytes) -> frozenset[str]:
    """Its types: what its framing calls it, what it calls itself, `finish` and `done`."""
    found = set(message_contents.names(codec, message))
    is_last = codec == "sse" and sse.is_done(message)
    if is_last or message_contents.document(codec, message).get("done") is True:
        found.add(DONE)
    turns = dialect.turns(Response(head, codec, (message,)))
    if any(turn.finish is not None for turn in turns):
        found.add(FINISH)
    return frozenset(found)
