"""What Anthropic's models say on Amazon Bedrock: as everywhere, but for ids and errors.

No `ping` comes among the events, and an error is the service's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from llm_proxy.conversation import Conversation
from llm_proxy.dialects.anthropic import (
    completion,
    conversation,
    message_speech,
    message_words,
)
from llm_proxy.dialects.anthropic.errors import REQUEST_ID
from llm_proxy.dialects.delivery import Delivery
from llm_proxy.dialects.reading import Fields
from llm_proxy.dialects.speech import Document
from llm_proxy.dialects.vocabulary import Vocabulary, wordless
from llm_proxy.turns import Turn


class Claude:
    """Messages."""

    def conversation(self, body: Fields) -> Conversation:
        """As on Anthropic's API."""
        return conversation.messages(body)

    def vocabulary(self, *, streams: bool, delivery: Delivery) -> Vocabulary:
        """As of Anthropic's API."""
        words = message_words.vocabulary(streams=streams, delivery=delivery, id_prefix="msg_bdrk_")
        return _on_bedrock(replace(words, call_prefix="toolu_bdrk_"))

    def document(self, turn: Turn, _delivery: Delivery) -> Document:
        """The whole message."""
        return message_speech.document(turn)

    def events(self, turn: Turn, delivery: Delivery) -> Iterator[Document]:
        """Up to `message_stop`."""
        return (event for _, event in message_speech.events(turn, delivery.cut))


class ClaudeCompletion:
    """Legacy completions."""

    def conversation(self, body: Fields) -> Conversation:
        """As on Anthropic's API."""
        return conversation.completion(body)

    def vocabulary(self, *, streams: bool, delivery: Delivery) -> Vocabulary:
        """As of Anthropic's API."""
        words = completion.vocabulary(streams=streams, delivery=delivery)
        return _on_bedrock(words)

    def document(self, turn: Turn, _delivery: Delivery) -> Document:
        """The whole completion."""
        return completion.document(turn)

    def events(self, turn: Turn, delivery: Delivery) -> Iterator[Document]:
        """Up to the piece with the reason to stop."""
        return (event for _, event in completion.events(turn, delivery.cut))


def _on_bedrock(words: Vocabulary) -> Vocabulary:
    """An error is the service's, and tells nothing beside it."""
    return replace(words, failed=partial(_failed, words=words), refused=wordless)


def _failed(turn: Turn, words: Vocabulary) -> Turn:
    told = words.failed(turn)
    beside = tuple(pair for pair in told.metadata if pair[0] != REQUEST_ID)
    return replace(told, metadata=beside)
