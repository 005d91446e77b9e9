"""Answers of `openai-completions` as they go out: what they have words for, and their chunks.

    text* finish [usage] [DONE]

Of several choices, each chunk belongs to one, and they take turns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, zip_longest

from llm_proxy.dialects import reading, speech
from llm_proxy.dialects.base import Response
from llm_proxy.dialects.delivery import Delivery
from llm_proxy.dialects.openai import api, choices, errors
from llm_proxy.dialects.openai.family import Member
from llm_proxy.dialects.reading import Fields
from llm_proxy.dialects.speech import Document
from llm_proxy.dialects.vocabulary import Vocabulary, kept, worded
from llm_proxy.framing import sse
from llm_proxy.turns import Finish, Turn


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request asks of the manner of its answer."""

    stream: bool
    usage: bool
    """Whether a stream is to tell usage."""


def asked(body: Fields) -> Asked:
    """What the body of a request asks for."""
    options = reading.fields(body.get("stream_options"))
    return Asked(body.get("stream") is True, options.get("include_usage") is True)


def vocabulary(manner: Asked, speaker: Member) -> Vocabulary:
    """The words of this member of the family for such a request."""
    has_usage = not manner.stream or manner.usage or speaker.usage_at_finish
    return Vocabulary(
        dialect="openai-completions",
        streams=manner.stream,
        finishes=choices.FINISH,
        words={
            Finish.STOP: "stop",
            Finish.LENGTH: "length",
            Finish.CONTENT_FILTER: "content_filter",
            Finish.ERROR: "error",
        },
        id_prefix="cmpl-",
        counts=choices.COUNTS if has_usage else (),
        always=choices.COUNTED if has_usage else (),
        counts_always=has_usage,
        keeps=(*choices.OF_CHUNK, *choices.OF_CHOICE, choices.LOGPROBS),
        shared=choices.OF_CHUNK,
        choices=True,
        arranged=choices.with_logprobs,
        failure=worded if manner.stream else partial(errors.instead, speaker=speaker),
        failed=_failed,
    )


def _failed(turn: Turn) -> Turn:
    """What a stream tells before its end: neither usage nor what stands beside the finish."""
    return replace(turn, usage=None, metadata=kept(turn.metadata, choices.OF_CHUNK))


@dataclass(frozen=True, slots=True)
class CompletionSpeech:
    """Tells turns that fit."""

    manner: Asked
    speaker: Member
    delivery: Delivery

    def response(self, turns: Sequence[Turn]) -> Response:
        """The answer, a stream or a document."""
        headers = errors.headers(self.delivery)
        if self.manner.stream:
            return speech.streamed("sse", api.EVENTS, self._events(turns), headers)
        each = [_choice(at, turn.text, turn) for at, turn in enumerate(turns)]
        usage = choices.usage_fields(turns[0].usage)
        return speech.document({**self._answer(turns[0], each), "usage": usage}, headers)

    def _events(self, turns: Sequence[Turn]) -> Iterator[bytes]:
        spoken = [self._pieces(at, turn) for at, turn in enumerate(turns)]
        for choice in filter(None, chain.from_iterable(zip_longest(*spoken))):
            yield self._event(turns[0], [choice])
        if (failure := turns[0].failure) is not None:
            error = {"error": errors.fields(failure, self.speaker)}
            yield sse.event(speech.written(error), self.speaker.error_event)
            return
        counts = choices.usage_fields(turns[0].usage)
        for index, turn in enumerate(turns):
            at_finish = self.speaker.usage_at_finish and turn is turns[-1]
            ended = _choice(index, "", turn)
            yield self._event(turn, [ended], usage=counts if at_finish else None)
        if self.manner.usage and not self.speaker.usage_at_finish:
            yield self._event(turns[0], [], usage=counts)
        if self.speaker.done:
            yield api.DONE

    def _pieces(self, index: int, turn: Turn) -> Iterator[Document]:
        """What the chunks of one choice say, up to its finish; one that breaks off says as much."""
        if turn.failure is not None and not turn.parts:
            yield _choice(index, "")
        for piece in self.delivery.cut(turn.text):
            yield _choice(index, piece)

    def _event(self, turn: Turn, each: list[Document], usage: Document | None = None) -> bytes:
        chunk = self._answer(turn, each)
        if usage is not None or self.manner.usage:
            chunk["usage"] = usage
        return sse.event(speech.written(chunk))

    def _answer(self, turn: Turn, each: list[Document]) -> Document:
        return {
            "id": turn.id,
            "object": "text_completion",
            "created": self.delivery.created,
            "model": turn.model,
            **dict(kept(turn.metadata, choices.OF_CHUNK)),
            "choices": each,
        }


def _choice(index: int, text: str, ended: Turn | None = None) -> Document:
    """A choice; that of a turn which ended says why, and how likely its tokens were."""
    said: Document = dict(ended.metadata) if ended else {}
    beside = {name: it for name, it in said.items() if name in choices.OF_CHOICE}
    return {
        "text": text,
        "index": index,
        "logprobs": said.get(choices.LOGPROBS),
        "finish_reason": ended.finish_raw if ended else None,
        **beside,
    }
