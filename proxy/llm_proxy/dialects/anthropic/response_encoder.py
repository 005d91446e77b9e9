"""Encodes Anthropic responses: named SSE events with a `ping`, or a document."""

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
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.capabilities import Capabilities
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.framing import sse
from llm_proxy.turns import Turn

_EVENTS: Final = "text/event-stream; charset=utf-8"
_UNCACHED: Final = ("Cache-Control", "no-cache")
_PING: Final = ("ping", {"type": "ping"})
_ID: Final = "msg_"
_ID_OF_VERTEX: Final = "msg_vrtx_"


@dataclass(frozen=True, slots=True)
class AnthropicResponseOptions:
    """What a request asks of the manner of its answer."""

    stream: bool
    legacy: bool
    """Whether it asks for a completion, and not for a message."""
    vertex: bool
    """Whether it asks Google's Vertex AI."""


def capabilities(options: AnthropicResponseOptions, context: EncodeContext) -> Capabilities:
    """The words of the answer to such a request."""
    if options.legacy:
        return completion_encoder.capabilities(streams=options.stream, context=context)
    prefix = _ID_OF_VERTEX if options.vertex else _ID
    return message_capabilities.capabilities(
        streams=options.stream, context=context, id_prefix=prefix
    )


def encode_response(
    turn: Turn, options: AnthropicResponseOptions, context: EncodeContext
) -> DialectResponse:
    """The answer that tells a turn that fits."""
    if turn.failure and not options.stream:
        return errors.whole_error_response(turn, context)
    headers = errors.response_headers(context, errors.request_id(turn, context))
    if options.stream:
        events = _encode_events(turn, options, context)
        messages = (
            sse.encode_event(response_encoding.json_line(event), name) for name, event in events
        )
        return response_encoding.stream_response("sse", _EVENTS, messages, (_UNCACHED, *headers))
    document = (
        completion_encoder.encode_document(turn)
        if options.legacy
        else message_encoder.encode_document(turn)
    )
    return response_encoding.json_response(document, headers)


def _encode_events(
    turn: Turn, options: AnthropicResponseOptions, context: EncodeContext
) -> Iterator[tuple[str, Document]]:
    """A `ping` comes once, behind what begins the answer, and never last."""
    tell = completion_encoder.encode_events if options.legacy else message_encoder.encode_events
    after = "message_start" if options.vertex else "content_block_start"
    is_due = False
    has_pinged = False
    for name, event in tell(turn, context.split_text):
        if is_due and not has_pinged:
            has_pinged = True
            yield _PING
        yield name, event
        is_due = is_due or name in (after, completion_encoder.COMPLETION)
    if turn.failure is not None:
        yield "error", errors.encode_stream_error(turn, turn.failure, context)
