"""Answers of `openai-chat` as they go out.

    role ( reasoning | text | refusal | sound | image | call )* finish [usage] [DONE]

Calls come one after the other.  Nothing is said twice that clients would add up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from llm_proxy.dialects import response_encoding
from llm_proxy.dialects.base import Response
from llm_proxy.dialects.capabilities import kept
from llm_proxy.dialects.encode_context import Delivery
from llm_proxy.dialects.openai import api, choices_decoder, errors
from llm_proxy.dialects.openai.chat_capabilities import OF_MESSAGE, ChatAsked
from llm_proxy.dialects.openai.chat_message_encoder import MessageSpeech
from llm_proxy.dialects.openai.choices_encoder import ChoicesSpeech, envelope
from llm_proxy.dialects.openai.family import Member
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.framing import sse
from llm_proxy.turns import Turn


@dataclass(frozen=True, slots=True)
class ChatSpeech:
    """Tells turns that fit."""

    manner: ChatAsked
    speaker: Member
    delivery: Delivery

    def response(self, turns: Sequence[Turn]) -> Response:
        """The answer, a stream or a document."""
        headers = errors.headers(self.delivery)
        if self.manner.stream:
            return response_encoding.streamed("sse", api.EVENTS, self._events(turns), headers)
        return response_encoding.document(self._whole(turns), headers)

    def _whole(self, turns: Sequence[Turn]) -> Document:
        each: list[Document] = [
            {"index": at, "message": self._message(turn), **_ended(turn)}
            for at, turn in enumerate(turns)
        ]
        around = envelope(turns[0], "chat.completion", self.delivery)
        return {**around, "choices": each, "usage": choices_decoder.usage_fields(turns[0].usage)}

    def _message(self, turn: Turn) -> Document:
        message = MessageSpeech(self.speaker, self.delivery.cut).whole(turn)
        return {**message, **dict(kept(turn.metadata, OF_MESSAGE))}

    def _events(self, turns: Sequence[Turn]) -> Iterator[bytes]:
        if self.speaker.preamble is not None:
            yield sse.event(response_encoding.written(dict(self.speaker.preamble)))
        around = envelope(turns[0], "chat.completion.chunk", self.delivery)
        ended: list[Document] = [
            {"index": at, "delta": dict(kept(turn.metadata, OF_MESSAGE)), **_ended(turn)}
            for at, turn in enumerate(turns)
        ]
        pieces = [self._pieces(at, turn) for at, turn in enumerate(turns)]
        spoken = ChoicesSpeech(self.manner, self.speaker, around, self.delivery.successive)
        yield from spoken.events(turns[0], pieces, ended)

    def _pieces(self, index: int, turn: Turn) -> Iterator[Document]:
        """What the chunks of one choice say, up to its finish."""
        for delta in MessageSpeech(self.speaker, self.delivery.cut).deltas(turn):
            yield {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}


def _ended(turn: Turn) -> Document:
    """Why a choice finished, how likely its tokens were, and what else it says of itself."""
    return {
        "logprobs": dict(turn.metadata).get(choices_decoder.LOGPROBS),
        "finish_reason": turn.finish_raw,
        **dict(kept(turn.metadata, choices_decoder.OF_CHOICE)),
    }
