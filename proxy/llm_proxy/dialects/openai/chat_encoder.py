"""Encodes `openai-chat` responses.

    role ( reasoning | text | refusal | audio | image | call )* finish [usage] [DONE]

Tool calls are sent one after the other.  No field that clients accumulate is repeated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from llm_proxy.dialects import response_encoding
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.capabilities import nonempty_metadata
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.openai import choices_decoder, errors, shared_format
from llm_proxy.dialects.openai.chat_capabilities import MESSAGE_METADATA_FIELDS, ChatResponseOptions
from llm_proxy.dialects.openai.chat_message_encoder import ChatMessageEncoder
from llm_proxy.dialects.openai.choices_encoder import ChoicesStreamEncoder, response_envelope
from llm_proxy.dialects.openai.provider_variants import ProviderVariant
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.framing import sse
from llm_proxy.turns import Turn


@dataclass(frozen=True, slots=True)
class ChatEncoder:
    """Encodes converted turns as a chat response."""

    options: ChatResponseOptions
    variant: ProviderVariant
    context: EncodeContext

    def encode_response(self, turns: Sequence[Turn]) -> DialectResponse:
        """The response: a stream or a JSON document; each turn is one choice."""
        headers = errors.common_response_headers(self.context)
        if self.options.stream:
            return response_encoding.stream_response(
                "sse", shared_format.EVENT_STREAM_CONTENT_TYPE, self._encode_events(turns), headers
            )
        return response_encoding.json_response(self._encode_whole_response(turns), headers)

    def _encode_whole_response(self, turns: Sequence[Turn]) -> Document:
        items: list[Document] = [
            {"index": at, "message": self._encode_message(turn), **_finish_fields(turn)}
            for at, turn in enumerate(turns)
        ]
        envelope = response_envelope(turns[0], "chat.completion", self.context)
        return {**envelope, "choices": items, "usage": choices_decoder.encode_usage(turns[0].usage)}

    def _encode_message(self, turn: Turn) -> Document:
        message = ChatMessageEncoder(self.variant, self.context.split_text).encode_message(turn)
        return {**message, **dict(nonempty_metadata(turn.metadata, MESSAGE_METADATA_FIELDS))}

    def _encode_events(self, turns: Sequence[Turn]) -> Iterator[bytes]:
        if self.variant.preamble_chunk is not None:
            yield sse.encode_event(
                response_encoding.single_line_json(dict(self.variant.preamble_chunk))
            )
        envelope = response_envelope(turns[0], "chat.completion.chunk", self.context)
        final_choices: list[Document] = [
            {
                "index": at,
                "delta": dict(nonempty_metadata(turn.metadata, MESSAGE_METADATA_FIELDS)),
                **_finish_fields(turn),
            }
            for at, turn in enumerate(turns)
        ]
        choice_deltas = [self._encode_choice_deltas(at, turn) for at, turn in enumerate(turns)]
        encoder = ChoicesStreamEncoder(
            self.options, self.variant, envelope, self.context.choices_are_successive
        )
        yield from encoder.encode_events(turns[0], choice_deltas, final_choices)

    def _encode_choice_deltas(self, index: int, turn: Turn) -> Iterator[Document]:
        for delta in ChatMessageEncoder(self.variant, self.context.split_text).encode_deltas(turn):
            yield {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}


def _finish_fields(turn: Turn) -> Document:
    """The fields of a finished choice: finish reason, log probabilities and metadata."""
    return {
        "logprobs": dict(turn.metadata).get(choices_decoder.LOGPROBS),
        "finish_reason": turn.finish_raw,
        **dict(nonempty_metadata(turn.metadata, choices_decoder.CHOICE_METADATA_FIELDS)),
    }
