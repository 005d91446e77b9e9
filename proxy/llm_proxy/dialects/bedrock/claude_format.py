"""Anthropic's format on Amazon Bedrock, which differs in ids and errors.

There are no `ping` events, and errors are in the service's format.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_proxy.conversation import Conversation
from llm_proxy.dialects import encoding
from llm_proxy.dialects.anthropic import messages, request_decoder
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.dialects.wire import WireFormat
from llm_proxy.turns import Turn


class ClaudeFormat:
    """The Messages format."""

    def decode_request(self, body: Fields) -> Conversation:
        """As in Anthropic's API."""
        return request_decoder.decode_messages_request(body)

    def wire_format(self, *, stream: bool) -> WireFormat:
        """As in Anthropic's API, with Bedrock's ids."""
        return messages.wire_format(
            stream=stream, id_prefix="msg_bdrk_", call_id_prefix="toolu_bdrk_"
        )

    def encode_whole_response(self, turn: Turn, context: EncodeContext) -> Document:
        """The whole message."""
        return messages.encode_message(turn, context)

    def encode_events(self, turn: Turn, context: EncodeContext) -> Iterator[Document]:
        """The events up to `message_stop`."""
        return messages.encode_events(turn, context)


class ClaudeCompletionFormat:
    """The legacy text completion format."""

    def decode_request(self, body: Fields) -> Conversation:
        """As in Anthropic's API."""
        return request_decoder.decode_completion_request(body)

    def wire_format(self, *, stream: bool) -> WireFormat:
        """As in Anthropic's API; the service counts the tokens."""
        return messages.completion_wire_format(stream=stream)

    def encode_whole_response(self, turn: Turn, _context: EncodeContext) -> Document:
        """The whole completion."""
        [document] = messages.encode_completion_events(turn, encoding.one_piece)
        return document

    def encode_events(self, turn: Turn, context: EncodeContext) -> Iterator[Document]:
        """The events up to the one with the stop reason."""
        return messages.encode_completion_events(turn, context.split_text)


AnyClaudeFormat = ClaudeFormat | ClaudeCompletionFormat
