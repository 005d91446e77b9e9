"""Answers of `openai-chat` as they go out.

    role ( reasoning | text | refusal | sound | image | call )* finish [usage] [DONE]

Calls come one after the other.  Of several choices, each chunk belongs to one, and they take
turns.  Nothing is said twice that clients would add up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest

from llm_proxy.dialects import speech
from llm_proxy.dialects.base import Response
from llm_proxy.dialects.delivery import Delivery
from llm_proxy.dialects.openai import api, choices, errors
from llm_proxy.dialects.openai.chat_message_speech import MessageSpeech
from llm_proxy.dialects.openai.chat_words import OF_MESSAGE, Asked
from llm_proxy.dialects.openai.family import Member
from llm_proxy.dialects.speech import Document
from llm_proxy.dialects.vocabulary import kept
from llm_proxy.framing import sse
from llm_proxy.turns import Turn


@dataclass(frozen=True, slots=True)
class ChatSpeech:
    """Tells turns that fit."""

    manner: Asked
    speaker: Member
    delivery: Delivery

    def response(self, turns: Sequence[Turn]) -> Response:
        """The answer, a stream or a document."""
        headers = errors.headers(self.delivery)
        if self.manner.stream:
            return speech.streamed("sse", api.EVENTS, self._events(turns), headers)
        return speech.document(self._whole(turns), headers)

    def _whole(self, turns: Sequence[Turn]) -> Document:
        each: list[Document] = [
            {"index": at, "message": self._message(turn), **_ended(turn)}
            for at, turn in enumerate(turns)
        ]
        usage = choices.usage_fields(turns[0].usage)
        return {**self._envelope(turns[0], "chat.completion"), "choices": each, "usage": usage}

    def _message(self, turn: Turn) -> Document:
        message = MessageSpeech(self.speaker, self.delivery.cut).whole(turn)
        return {**message, **dict(kept(turn.metadata, OF_MESSAGE))}

    def _envelope(self, turn: Turn, kind: str) -> Document:
        return {
            "id": turn.id,
            "object": kind,
            "created": self.delivery.created,
            "model": turn.model,
            **dict(kept(turn.metadata, choices.OF_CHUNK)),
        }

    def _events(self, turns: Sequence[Turn]) -> Iterator[bytes]:
        if self.speaker.preamble is not None:
            yield sse.event(speech.written(dict(self.speaker.preamble)))
        spoken = [self._pieces(at, turn) for at, turn in enumerate(turns)]
        for choice in filter(None, chain.from_iterable(zip_longest(*spoken))):
            yield self._event(turns[0], [choice])
        if (failure := turns[0].failure) is not None:
            error = {"error": errors.fields(failure, self.speaker)}
            yield sse.event(speech.written(error), self.speaker.error_event)
            return
        yield from self._last_events(turns)

    def _last_events(self, turns: Sequence[Turn]) -> Iterator[bytes]:
        """Why each choice finished, and what all of them cost."""
        counts = choices.usage_fields(turns[0].usage)
        for index, turn in enumerate(turns):
            delta = dict(kept(turn.metadata, OF_MESSAGE))
            ended = {"index": index, "delta": delta, **_ended(turn)}
            is_last = index == len(turns) - 1
            at_finish = self.speaker.usage_at_finish and is_last
            yield self._event(turn, [ended], usage=counts if at_finish else None)
        if self.manner.usage and not self.speaker.usage_at_finish:
            yield self._event(turns[0], [], usage=counts)
        if self.speaker.done:
            yield api.DONE

    def _event(self, turn: Turn, each: list[Document], usage: Document | None = None) -> bytes:
        chunk = {**self._envelope(turn, "chat.completion.chunk"), "choices": each}
        if usage is not None or self.manner.usage:
            chunk["usage"] = usage
        return sse.event(speech.written(chunk))

    def _pieces(self, index: int, turn: Turn) -> Iterator[Document]:
        """What the chunks of one choice say, up to its finish."""
        for delta in MessageSpeech(self.speaker, self.delivery.cut).deltas(turn):
            yield {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}


def _ended(turn: Turn) -> Document:
    """Why a choice finished, how likely its tokens were, and what else it says of itself."""
    return {
        "logprobs": dict(turn.metadata).get(choices.LOGPROBS),
        "finish_reason": turn.finish_raw,
        **dict(kept(turn.metadata, choices.OF_CHOICE)),
    }
