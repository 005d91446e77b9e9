"""The protocol of a model maker's InvokeModel format."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from llm_proxy.conversation import Conversation
from llm_proxy.dialects.capabilities import Capabilities
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.turns import Turn


class ModelFormat(Protocol):
    """How the models of one maker speak.  The turns that they tell fit."""

    def decode_request(self, body: Fields) -> Conversation:
        """What a request to them asks."""

    def capabilities(self, *, streams: bool, context: EncodeContext) -> Capabilities:
        """The words of an answer; the service counts the tokens of one that tells no usage."""

    def encode_document(self, turn: Turn, context: EncodeContext) -> Document:
        """The whole answer."""

    def encode_events(self, turn: Turn, context: EncodeContext) -> Iterator[Document]:
        """The answer as a stream; of a turn that failed, what is said before its end."""
