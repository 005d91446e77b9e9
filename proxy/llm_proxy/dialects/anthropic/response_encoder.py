"""Answers of Anthropic's as they go out: events with names, a `ping` among them, or a document."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from llm_proxy.dialects import response_encoding
from llm_proxy.dialects.anthropic import (
    completion_encoder,
    errors,
    message_capabilities,
    message_encoder,
)
from llm_proxy.dialects.base import Response
from llm_proxy.dialects.capabilities import Vocabulary
from llm_proxy.dialects.encode_context import Delivery
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.framing import sse
from llm_proxy.turns import Turn

_EVENTS: Final = "text/event-stream; charset=utf-8"
_UNCACHED: Final = ("Cache-Control", "no-cache")
_PING: Final = ("ping", {"type": "ping"})
_ID: Final = "msg_"
_ID_OF_VERTEX: Final = "msg_vrtx_"


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request asks of the manner of its answer."""

    stream: bool
    legacy: bool
    """Whether it asks for a completion, and not for a message."""
    vertex: bool
    """Whether it asks Google's Vertex AI."""


def vocabulary(asked: Asked, delivery: Delivery) -> Vocabulary:
    """The words of the answer to such a request."""
    if asked.legacy:
        return completion_encoder.vocabulary(streams=asked.stream, delivery=delivery)
    prefix = _ID_OF_VERTEX if asked.vertex else _ID
    return message_capabilities.vocabulary(
        streams=asked.stream, delivery=delivery, id_prefix=prefix
    )


def response(turn: Turn, asked: Asked, delivery: Delivery) -> Response:
    """The answer that tells a turn that fits."""
    if turn.failure and not asked.stream:
        return errors.in_place(turn, delivery)
    headers = errors.headers(delivery, errors.request_id(turn, delivery))
    if asked.stream:
        events = _events(turn, asked, delivery)
        messages = (sse.event(response_encoding.written(event), name) for name, event in events)
        return response_encoding.streamed("sse", _EVENTS, messages, (_UNCACHED, *headers))
    told = completion_encoder.document(turn) if asked.legacy else message_encoder.document(turn)
    return response_encoding.document(told, headers)


def _events(turn: Turn, asked: Asked, delivery: Delivery) -> Iterator[tuple[str, Document]]:
    """A `ping` comes once, behind what begins the answer, and never last."""
    tell = completion_encoder.events if asked.legacy else message_encoder.events
    after = "message_start" if asked.vertex else "content_block_start"
    is_due = False
    has_pinged = False
    for name, event in tell(turn, delivery.cut):
        if is_due and not has_pinged:
            has_pinged = True
            yield _PING
        yield name, event
        is_due = is_due or name in (after, completion_encoder.COMPLETION)
    if turn.failure is not None:
        yield "error", errors.in_stream(turn, turn.failure, delivery)
