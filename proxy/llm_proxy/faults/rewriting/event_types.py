"""The event types of a message, for faults located by type."""

from __future__ import annotations

from llm_proxy.dialects.base import Dialect, DialectResponse
from llm_proxy.exchange import ResponseHead
from llm_proxy.faults import framed_message_contents
from llm_proxy.framing import sse

DONE_TYPE = "done"
"""The type of the message that ends a stream, such as `[DONE]`."""
FINISH_TYPE = "finish"
"""The type of a message that contains the finish reason."""


def event_types(dialect: Dialect, head: ResponseHead, codec: str, message: bytes) -> frozenset[str]:
    """The event types of a message: by its framing, by its JSON, and `finish` and `done`."""
    types = set(framed_message_contents.declared_event_types(codec, message))
    is_done_event = codec == "sse" and sse.is_done_message(message)
    if (
        is_done_event
        or framed_message_contents.message_json_fields(codec, message).get("done") is True
    ):
        types.add(DONE_TYPE)
    turns = dialect.decode_response(DialectResponse(head, codec, (message,)))
    if any(turn.finish is not None for turn in turns):
        types.add(FINISH_TYPE)
    return frozenset(types)
