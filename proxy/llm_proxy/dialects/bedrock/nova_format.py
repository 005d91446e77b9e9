"""The format of Amazon's Nova models: Converse's, with other usage names.

In a stream each event is wrapped in its name, and each piece of a text has a block of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from llm_proxy.conversation import Conversation
from llm_proxy.dialects.bedrock import (
    converse_capabilities,
    converse_encoder,
    converse_request_decoder,
    usage,
)
from llm_proxy.dialects.bedrock.converse_decoder import USAGE
from llm_proxy.dialects.capabilities import Capabilities, without_citations
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.turns import Text, Turn


class NovaFormat:
    """The InvokeModel format of Amazon's Nova models."""

    def decode_request(self, body: Fields) -> Conversation:
        """As Converse, whose request format Nova shares."""
        return converse_request_decoder.decode_request(body)

    def capabilities(self, *, streams: bool, context: EncodeContext) -> Capabilities:
        """As Converse; a stream has no citations, and its texts have no boundaries."""
        capabilities = converse_capabilities.capabilities(streams=streams)
        capabilities = replace(
            capabilities, metadata_names=(USAGE,), normalize_turn=_normalize_turn
        )
        if not streams:
            return capabilities
        return replace(
            capabilities,
            convert_text=without_citations,
            merged_kinds=frozenset((Text,)),
            usage_fields=tuple(count for count in usage.USAGE_FIELDS if count != "total"),
            required_usage_fields=("input", "output"),
        )

    def encode_whole_response(self, turn: Turn, _context: EncodeContext) -> Document:
        """The message and its usage."""
        return {**converse_encoder.encode_message(turn), "usage": _encode_nova_usage(turn)}

    def encode_events(self, turn: Turn, context: EncodeContext) -> Iterator[Document]:
        """The events, each wrapped in its name."""
        for name, document in converse_encoder.encode_message_events(
            turn, context.split_text, separate_text_blocks=True
        ):
            yield {name: document}
        if turn.failure is None:
            yield {"messageStop": {"stopReason": turn.finish_raw}}
            yield {"metadata": {"usage": _encode_nova_usage(turn), "metrics": {}, "trace": {}}}


def _encode_nova_usage(turn: Turn) -> Document:
    return {**usage.encode_nova_usage(turn.usage), **converse_encoder.extra_usage_fields(turn)}


def _normalize_turn(turn: Turn) -> Turn:
    metadata = converse_capabilities.representable_metadata(dict(turn.metadata))
    return replace(converse_capabilities.mark_provider_tool_parts(turn), metadata=metadata)
