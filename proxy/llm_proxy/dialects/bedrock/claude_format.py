"""Anthropic's format on Amazon Bedrock, which differs in ids and errors.

There are no `ping` events, and errors are in the service's format.
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
from llm_proxy.dialects.capabilities import Capabilities, without_turn_metadata
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.turns import Turn


class ClaudeFormat:
    """The Messages format."""

    def decode_request(self, body: Fields) -> Conversation:
        """As in Anthropic's API."""
        return request_decoder.decode_messages_request(body)

    def capabilities(self, *, streams: bool, context: EncodeContext) -> Capabilities:
        """As in Anthropic's API, with Bedrock's ids and errors."""
        capabilities = message_capabilities.capabilities(
            streams=streams, context=context, id_prefix="msg_bdrk_"
        )
        return _with_bedrock_errors(replace(capabilities, call_id_prefix="toolu_bdrk_"))

    def encode_whole_response(self, turn: Turn, _context: EncodeContext) -> Document:
        """The whole message."""
        return message_encoder.encode_whole_response(turn)

    def encode_events(self, turn: Turn, context: EncodeContext) -> Iterator[Document]:
        """The events up to `message_stop`."""
        return (event for _, event in message_encoder.encode_events(turn, context.split_text))


class ClaudeCompletionFormat:
    """The legacy text completion format."""

    def decode_request(self, body: Fields) -> Conversation:
        """As in Anthropic's API."""
        return request_decoder.decode_completion_request(body)

    def capabilities(self, *, streams: bool, context: EncodeContext) -> Capabilities:
        """As in Anthropic's API, with Bedrock's ids and errors."""
        capabilities = completion_encoder.capabilities(streams=streams, context=context)
        return _with_bedrock_errors(capabilities)

    def encode_whole_response(self, turn: Turn, _context: EncodeContext) -> Document:
        """The whole completion."""
        return completion_encoder.encode_whole_response(turn)

    def encode_events(self, turn: Turn, context: EncodeContext) -> Iterator[Document]:
        """The events up to the one with the stop reason."""
        return (event for _, event in completion_encoder.encode_events(turn, context.split_text))


def _with_bedrock_errors(capabilities: Capabilities) -> Capabilities:
    """The capabilities with errors in the service's format, which has no metadata."""
    return replace(
        capabilities,
        convert_failed_turn=partial(_failed_turn_without_request_id, words=capabilities),
        convert_http_error_turn=without_turn_metadata,
    )


def _failed_turn_without_request_id(turn: Turn, words: Capabilities) -> Turn:
    failed_turn = words.convert_failed_turn(turn)
    metadata = tuple(pair for pair in failed_turn.metadata if pair[0] != REQUEST_ID)
    return replace(failed_turn, metadata=metadata)
