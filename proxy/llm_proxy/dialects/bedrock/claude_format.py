"""Anthropic's format on Amazon Bedrock, which differs in ids and errors.

No `ping` comes among the events, and an error is the service's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from llm_proxy.conversation import Conversation
from llm_proxy.dialects.anthropic import (
    completion_encoder,
    message_capabilities,
    message_encoder,
    request_decoder,
)
from llm_proxy.dialects.anthropic.errors import REQUEST_ID
from llm_proxy.dialects.capabilities import Capabilities, error_only
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.turns import Turn


class ClaudeFormat:
    """Messages."""

    def decode_request(self, body: Fields) -> Conversation:
        """As on Anthropic's API."""
        return request_decoder.decode_messages_request(body)

    def capabilities(self, *, streams: bool, context: EncodeContext) -> Capabilities:
        """As of Anthropic's API."""
        words = message_capabilities.capabilities(
            streams=streams, context=context, id_prefix="msg_bdrk_"
        )
        return _bedrock_capabilities(replace(words, call_id_prefix="toolu_bdrk_"))

    def encode_document(self, turn: Turn, _context: EncodeContext) -> Document:
        """The whole message."""
        return message_encoder.encode_document(turn)

    def encode_events(self, turn: Turn, context: EncodeContext) -> Iterator[Document]:
        """Up to `message_stop`."""
        return (event for _, event in message_encoder.encode_events(turn, context.split_text))


class ClaudeCompletionFormat:
    """Legacy completions."""

    def decode_request(self, body: Fields) -> Conversation:
        """As on Anthropic's API."""
        return request_decoder.decode_completion_request(body)

    def capabilities(self, *, streams: bool, context: EncodeContext) -> Capabilities:
        """As of Anthropic's API."""
        words = completion_encoder.capabilities(streams=streams, context=context)
        return _bedrock_capabilities(words)

    def encode_document(self, turn: Turn, _context: EncodeContext) -> Document:
        """The whole completion."""
        return completion_encoder.encode_document(turn)

    def encode_events(self, turn: Turn, context: EncodeContext) -> Iterator[Document]:
        """Up to the piece with the reason to stop."""
        return (event for _, event in completion_encoder.encode_events(turn, context.split_text))


def _bedrock_capabilities(words: Capabilities) -> Capabilities:
    """An error is the service's, and tells nothing beside it."""
    return replace(
        words,
        convert_failed_turn=partial(_as_service_failure, words=words),
        convert_http_error_turn=error_only,
    )


def _as_service_failure(turn: Turn, words: Capabilities) -> Turn:
    told = words.convert_failed_turn(turn)
    values = tuple(pair for pair in told.metadata if pair[0] != REQUEST_ID)
    return replace(told, metadata=values)
