"""The OpenAI-like chat format of several model makers on Amazon Bedrock.

Streams tell no usage: the service's metrics do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from llm_proxy.conversation import Conversation
from llm_proxy.dialects.bedrock.completion_decoder import FINISH
from llm_proxy.dialects.capabilities import Capabilities
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.openai import chat_request_decoder, choices_decoder
from llm_proxy.dialects.openai.chat_capabilities import ChatResponseOptions, capabilities
from llm_proxy.dialects.openai.chat_message_encoder import ChatMessageEncoder
from llm_proxy.dialects.openai.provider_variants import OPENAI
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.turns import Finish, Turn

_WORDS: Final[Mapping[Finish, str]] = {
    Finish.STOP: "stop",
    Finish.LENGTH: "length",
    Finish.TOOL_CALLS: "tool_calls",
    Finish.CONTENT_FILTER: "content_filter",
}
_COUNTS: Final = ("input", "output", "total")


@dataclass(frozen=True, slots=True)
class ChatModelFormat:
    """Chats; makers differ in where they say why one ended."""

    finish_reason_field: str = "finish_reason"

    def decode_request(self, body: Fields) -> Conversation:
        """As of OpenAI."""
        return chat_request_decoder.decode_request(body)

    def capabilities(self, *, streams: bool, context: EncodeContext) -> Capabilities:
        """As of OpenAI, with no more beside a message than Bedrock reads."""
        chat_response_options = ChatResponseOptions(
            stream=streams, includes_usage=False, uses_legacy_functions=False
        )
        words = capabilities(chat_response_options, OPENAI)
        return replace(
            words,
            dialect="bedrock",
            finish_of_raw=FINISH,
            raw_of_finish=_WORDS,
            usage_fields=_COUNTS,
            required_usage_fields=_COUNTS,
            always_has_usage=not streams,
            metadata_names=(),
            allows_several_turns=False,
        )

    def encode_document(self, turn: Turn, context: EncodeContext) -> Document:
        """The whole chat completion."""
        message = ChatMessageEncoder(OPENAI, context.split_text).encode_message(turn)
        choice: Document = {
            "index": 0,
            "message": message,
            self.finish_reason_field: turn.finish_raw,
        }
        fields = {"choices": [choice], "usage": choices_decoder.encode_usage(turn.usage)}
        return {**_response_envelope(turn, "chat.completion", context), **fields}

    def encode_events(self, turn: Turn, context: EncodeContext) -> Iterator[Document]:
        """Its chunks."""
        document = _response_envelope(turn, "chat.completion.chunk", context)
        for delta in ChatMessageEncoder(OPENAI, context.split_text).encode_deltas(turn):
            yield {
                **document,
                "choices": [{"index": 0, "delta": delta, self.finish_reason_field: None}],
            }
        if turn.failure is None:
            ended: Document = {"index": 0, "delta": {}, self.finish_reason_field: turn.finish_raw}
            yield {**document, "choices": [ended]}


def _response_envelope(turn: Turn, kind: str, context: EncodeContext) -> Document:
    return {"id": turn.id, "object": kind, "created": context.created, "model": turn.model}
