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

_EVENT_STREAM_TYPE: Final = "text/event-stream; charset=utf-8"
_NO_CACHE: Final = ("Cache-Control", "no-cache")
_PING_EVENT: Final = ("ping", {"type": "ping"})
_MESSAGE_ID_PREFIX: Final = "msg_"
_VERTEX_ID_PREFIX: Final = "msg_vrtx_"


@dataclass(frozen=True, slots=True)
class AnthropicResponseOptions:
    """What a request determines of the format of its response."""

    stream: bool
    is_legacy_completion: bool
    """Whether it is for a legacy completion, not a message."""
    is_vertex: bool
    """Whether it is for Google's Vertex AI."""


def capabilities(options: AnthropicResponseOptions, context: EncodeContext) -> Capabilities:
    """The capabilities of the response to such a request."""
    if options.is_legacy_completion:
        return completion_encoder.capabilities(streams=options.stream, context=context)
    prefix = _VERTEX_ID_PREFIX if options.is_vertex else _MESSAGE_ID_PREFIX
    return message_capabilities.capabilities(
        streams=options.stream, context=context, id_prefix=prefix
    )


def encode_response(
    turn: Turn, options: AnthropicResponseOptions, context: EncodeContext
) -> DialectResponse:
    """The response of a converted turn."""
    if turn.failure and not options.stream:
        return errors.error_response_of_turn(turn, context)
    headers = errors.common_response_headers(context, errors.turn_request_id(turn, context))
    if options.stream:
        events = _events_with_ping(turn, options, context)
        messages = (
            sse.encode_event(response_encoding.single_line_json(event), name)
            for name, event in events
        )
        return response_encoding.stream_response(
            "sse", _EVENT_STREAM_TYPE, messages, (_NO_CACHE, *headers)
        )
    document = (
        completion_encoder.encode_whole_response(turn)
        if options.is_legacy_completion
        else message_encoder.encode_whole_response(turn)
    )
    return response_encoding.json_response(document, headers)


def _events_with_ping(
    turn: Turn, options: AnthropicResponseOptions, context: EncodeContext
) -> Iterator[tuple[str, Document]]:
    """The events with one `ping` after the response has started, but never last."""
    encode_events = (
        completion_encoder.encode_events
        if options.is_legacy_completion
        else message_encoder.encode_events
    )
    ping_follows = "message_start" if options.is_vertex else "content_block_start"
    is_ping_due = False
    has_pinged = False
    for name, event in encode_events(turn, context.split_text):
        if is_ping_due and not has_pinged:
            has_pinged = True
            yield _PING_EVENT
        yield name, event
        is_ping_due = is_ping_due or name in (ping_follows, completion_encoder.COMPLETION)
    if turn.failure is not None:
        yield "error", errors.encode_stream_error(turn, turn.failure, context)
