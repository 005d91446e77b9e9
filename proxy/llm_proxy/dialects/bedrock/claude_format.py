"""What Anthropic's models say on Amazon Bedrock: as everywhere, but for ids and errors.

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
from llm_proxy.dialects.capabilities import Vocabulary, wordless
from llm_proxy.dialects.encode_context import Delivery
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.turns import Turn


class Claude:
    """Messages."""

    def conversation(self, body: Fields) -> Conversation:
        """As on Anthropic's API."""
        return request_decoder.messages(body)

    def vocabulary(self, *, streams: bool, delivery: Delivery) -> Vocabulary:
        """As of Anthropic's API."""
        words = message_capabilities.vocabulary(
            streams=streams, delivery=delivery, id_prefix="msg_bdrk_"
        )
        return _on_bedrock(replace(words, call_prefix="toolu_bdrk_"))

    def document(self, turn: Turn, _delivery: Delivery) -> Document:
        """The whole message."""
        return message_encoder.document(turn)

    def events(self, turn: Turn, delivery: Delivery) -> Iterator[Document]:
        """Up to `message_stop`."""
        return (event for _, event in message_encoder.events(turn, delivery.cut))


class ClaudeCompletion:
    """Legacy completions."""

    def conversation(self, body: Fields) -> Conversation:
        """As on Anthropic's API."""
        return request_decoder.completion(body)

    def vocabulary(self, *, streams: bool, delivery: Delivery) -> Vocabulary:
        """As of Anthropic's API."""
        words = completion_encoder.vocabulary(streams=streams, delivery=delivery)
        return _on_bedrock(words)

    def document(self, turn: Turn, _delivery: Delivery) -> Document:
        """The whole completion."""
        return completion_encoder.document(turn)

    def events(self, turn: Turn, delivery: Delivery) -> Iterator[Document]:
        """Up to the piece with the reason to stop."""
        return (event for _, event in completion_encoder.events(turn, delivery.cut))


def _on_bedrock(words: Vocabulary) -> Vocabulary:
    """An error is the service's, and tells nothing beside it."""
    return replace(words, failed=partial(_failed, words=words), refused=wordless)


def _failed(turn: Turn, words: Vocabulary) -> Turn:
    told = words.failed(turn)
    beside = tuple(pair for pair in told.metadata if pair[0] != REQUEST_ID)
    return replace(told, metadata=beside)
