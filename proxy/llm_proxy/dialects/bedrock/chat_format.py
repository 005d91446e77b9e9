"""The OpenAI-like chat format of several model makers on Amazon Bedrock.

Streams have no usage except in the service's metrics.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from llm_proxy.conversation import Conversation
from llm_proxy.dialects.bedrock.completion_decoder import FINISH_BY_REASON
from llm_proxy.dialects.capabilities import (
    Capabilities,
    nonempty_metadata,
    without_part_metadata,
    without_signature,
)
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.encoding import one_piece
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.openai import chat_messages
from llm_proxy.dialects.openai.chat_messages import (
    MESSAGE_METADATA_FIELDS,
    ChatMessageDecoder,
    ChatMessageEncoder,
)
from llm_proxy.dialects.openai.choices import USAGE
from llm_proxy.dialects.openai.provider_variants import OPENAI_VARIANT
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.turns import FinishReason, Media, Reasoning, Refusal, Text, ToolCall, Turn

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
        return chat_messages.decode_request(body)

    def capabilities(self, *, streams: bool, context: EncodeContext) -> Capabilities:
        """As OpenAI's, without the metadata and the choices that Bedrock does not read."""
        return Capabilities(
            dialect="bedrock",
            is_streamed=streams,
            finish_by_raw_reason=FINISH_BY_REASON,
            raw_reason_by_finish=_FINISH_REASONS,
            convert_text=lambda text: Text(text.text, text.citations if text.text else ()),
            convert_reasoning=without_signature,
            convert_refusal=without_part_metadata,
            convert_tool_call=_representable_tool_call,
            convert_media=_representable_media,
            part_order=() if streams else (Reasoning, Text, Refusal, Media, ToolCall),
            id_prefix="chatcmpl-",
            usage_fields=_USAGE_FIELDS,
            required_usage_fields=_USAGE_FIELDS,
            always_has_usage=not streams,
            normalize_turn=partial(_normalize_turn, streams=streams),
            convert_failed_turn=lambda turn: replace(turn, usage=None, metadata=()),
        )

    def encode_whole_response(self, turn: Turn, context: EncodeContext) -> Document:
        """The whole chat completion."""
        message = ChatMessageEncoder(OPENAI_VARIANT, context.split_text).encode_message(turn)
        choice: Document = {
            "index": 0,
            "message": message,
            self.finish_reason_field: turn.finish_raw,
        }
        fields = {"choices": [choice], "usage": USAGE.encode(turn.usage)}
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


def _representable_tool_call(call: ToolCall) -> ToolCall:
    is_custom = ("type", "custom") in call.metadata
    names = ("type", *MESSAGE_METADATA_FIELDS) if is_custom else MESSAGE_METADATA_FIELDS
    return replace(call, metadata=nonempty_metadata(call.metadata, names))


def _representable_media(media: Media) -> Media | None:
    converted = chat_messages.representable_part(media)
    return converted if isinstance(converted, Media) else None


def _normalize_turn(turn: Turn, *, streams: bool) -> Turn:
    """The turn with the parts that decoding its message restores."""
    encoder, decoder = ChatMessageEncoder(OPENAI_VARIANT, one_piece), ChatMessageDecoder()
    for message in encoder.encode_deltas(turn) if streams else [encoder.encode_message(turn)]:
        decoder.feed(message, streamed=streams)
    return replace(turn, parts=decoder.decoded_parts())
