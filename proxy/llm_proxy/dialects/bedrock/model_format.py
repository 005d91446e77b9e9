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
    """The InvokeModel wire format of one maker's models.  Encoders take converted turns."""

    def decode_request(self, body: Fields) -> Conversation:
        """The conversation of a request body."""

    def capabilities(self, *, streams: bool, context: EncodeContext) -> Capabilities:
        """The capabilities of a response; the service counts tokens if the format has no usage."""

    def encode_whole_response(self, turn: Turn, context: EncodeContext) -> Document:
        """The whole response."""

    def encode_events(self, turn: Turn, context: EncodeContext) -> Iterator[Document]:
        """The events of a streamed response; for a failed turn, those before its end."""
