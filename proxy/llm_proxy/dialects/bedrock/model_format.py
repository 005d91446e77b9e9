"""What a maker of models on Amazon Bedrock is: a shape of its own for InvokeModel's answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from llm_proxy.conversation import Conversation
from llm_proxy.dialects.capabilities import Vocabulary
from llm_proxy.dialects.encode_context import Delivery
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.turns import Turn


class Maker(Protocol):
    """How the models of one maker speak.  The turns that they tell fit."""

    def conversation(self, body: Fields) -> Conversation:
        """What a request to them asks."""

    def vocabulary(self, *, streams: bool, delivery: Delivery) -> Vocabulary:
        """The words of an answer; the service counts the tokens of one that tells no usage."""

    def document(self, turn: Turn, delivery: Delivery) -> Document:
        """The whole answer."""

    def events(self, turn: Turn, delivery: Delivery) -> Iterator[Document]:
        """The answer as a stream; of a turn that failed, what is said before its end."""
