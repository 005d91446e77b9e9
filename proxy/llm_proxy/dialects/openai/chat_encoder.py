"""Encodes `openai-chat` responses.

    role ( reasoning | text | refusal | sound | image | call )* finish [usage] [DONE]

Calls come one after the other.  Nothing is said twice that clients would add up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from llm_proxy.dialects import response_encoding
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.capabilities import nonempty_metadata
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.openai import api, choices_decoder, errors
from llm_proxy.dialects.openai.chat_capabilities import OF_MESSAGE, ChatResponseOptions
from llm_proxy.dialects.openai.chat_message_encoder import ChatMessageEncoder
from llm_proxy.dialects.openai.choices_encoder import ChoicesEncoder, chunk_envelope
from llm_proxy.dialects.openai.provider_variants import FamilyMember
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.framing import sse
from llm_proxy.turns import Turn


@dataclass(frozen=True, slots=True)
class ChatEncoder:
    """Tells turns that fit."""

    options: ChatResponseOptions
    member: FamilyMember
    context: EncodeContext

    def encode_response(self, turns: Sequence[Turn]) -> DialectResponse:
        """The answer, a stream or a document."""
        headers = errors.response_headers(self.context)
        if self.options.stream:
            return response_encoding.stream_response(
                "sse", api.EVENTS, self._encode_events(turns), headers
            )
        return response_encoding.json_response(self._encode_document(turns), headers)

    def _encode_document(self, turns: Sequence[Turn]) -> Document:
        items: list[Document] = [
            {"index": at, "message": self._encode_message(turn), **_finish_fields(turn)}
            for at, turn in enumerate(turns)
        ]
        around = chunk_envelope(turns[0], "chat.completion", self.context)
        return {**around, "choices": items, "usage": choices_decoder.encode_usage(turns[0].usage)}

    def _encode_message(self, turn: Turn) -> Document:
        message = ChatMessageEncoder(self.member, self.context.split_text).encode_message(turn)
        return {**message, **dict(nonempty_metadata(turn.metadata, OF_MESSAGE))}

    def _encode_events(self, turns: Sequence[Turn]) -> Iterator[bytes]:
        if self.member.preamble_chunk is not None:
            yield sse.encode_event(response_encoding.json_line(dict(self.member.preamble_chunk)))
        around = chunk_envelope(turns[0], "chat.completion.chunk", self.context)
        ended: list[Document] = [
            {
                "index": at,
                "delta": dict(nonempty_metadata(turn.metadata, OF_MESSAGE)),
                **_finish_fields(turn),
            }
            for at, turn in enumerate(turns)
        ]
        pieces = [self._encode_choice_deltas(at, turn) for at, turn in enumerate(turns)]
        spoken = ChoicesEncoder(
            self.options, self.member, around, self.context.turns_are_successive
        )
        yield from spoken.encode_events(turns[0], pieces, ended)

    def _encode_choice_deltas(self, index: int, turn: Turn) -> Iterator[Document]:
        for delta in ChatMessageEncoder(self.member, self.context.split_text).encode_deltas(turn):
            yield {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}


def _finish_fields(turn: Turn) -> Document:
    """Why a choice finished, how likely its tokens were, and what else it says of itself."""
    return {
        "logprobs": dict(turn.metadata).get(choices_decoder.LOGPROBS),
        "finish_reason": turn.finish_raw,
        **dict(nonempty_metadata(turn.metadata, choices_decoder.OF_CHOICE)),
    }
