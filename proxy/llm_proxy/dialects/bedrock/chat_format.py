"""The OpenAI-like chat format of several model makers on Amazon Bedrock.

Streams have no usage except in the service's metrics.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from llm_proxy.conversation import Conversation
from llm_proxy.dialects.bedrock.completion_decoder import FINISH_BY_REASON
from llm_proxy.dialects.capabilities import Capabilities
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.openai import chat_request_decoder, choices_decoder
from llm_proxy.dialects.openai.chat_capabilities import ChatResponseOptions, capabilities
from llm_proxy.dialects.openai.chat_message_encoder import ChatMessageEncoder
from llm_proxy.dialects.openai.provider_variants import OPENAI_VARIANT
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.turns import FinishReason, Turn

_FINISH_REASONS: Final[Mapping[FinishReason, str]] = {
    FinishReason.STOP: "stop",
    FinishReason.LENGTH: "length",
    FinishReason.TOOL_CALLS: "tool_calls",
    FinishReason.CONTENT_FILTER: "content_filter",
}
_USAGE_FIELDS: Final = ("input", "output", "total")


@dataclass(frozen=True, slots=True)
class ChatModelFormat:
    """The chat format; makers differ in the field of the finish reason."""

    finish_reason_field: str = "finish_reason"

    def decode_request(self, body: Fields) -> Conversation:
        """As in OpenAI's Chat Completions."""
        return chat_request_decoder.decode_request(body)

    def capabilities(self, *, streams: bool, context: EncodeContext) -> Capabilities:
        """As OpenAI's, without the metadata and the choices that Bedrock does not read."""
        options = ChatResponseOptions(
            stream=streams, includes_usage=False, uses_legacy_functions=False
        )
        chat_capabilities = capabilities(options, OPENAI_VARIANT)
        return replace(
            chat_capabilities,
            dialect="bedrock",
            finish_by_raw_reason=FINISH_BY_REASON,
            raw_reason_by_finish=_FINISH_REASONS,
            usage_fields=_USAGE_FIELDS,
            required_usage_fields=_USAGE_FIELDS,
            always_has_usage=not streams,
            metadata_names=(),
            response_allows_several_choices=False,
        )

    def encode_whole_response(self, turn: Turn, context: EncodeContext) -> Document:
        """The whole chat completion."""
        message = ChatMessageEncoder(OPENAI_VARIANT, context.split_text).encode_message(turn)
        choice: Document = {
            "index": 0,
            "message": message,
            self.finish_reason_field: turn.finish_raw,
        }
        fields = {"choices": [choice], "usage": choices_decoder.encode_usage(turn.usage)}
        return {**_response_envelope(turn, "chat.completion", context), **fields}

    def encode_events(self, turn: Turn, context: EncodeContext) -> Iterator[Document]:
        """The chunks of a chat completion."""
        envelope = _response_envelope(turn, "chat.completion.chunk", context)
        for delta in ChatMessageEncoder(OPENAI_VARIANT, context.split_text).encode_deltas(turn):
            yield {
                **envelope,
                "choices": [{"index": 0, "delta": delta, self.finish_reason_field: None}],
            }
        if turn.failure is None:
            last_choice: Document = {
                "index": 0,
                "delta": {},
                self.finish_reason_field: turn.finish_raw,
            }
            yield {**envelope, "choices": [last_choice]}


def _response_envelope(turn: Turn, kind: str, context: EncodeContext) -> Document:
    return {"id": turn.id, "object": kind, "created": context.created_unix_s, "model": turn.model}
