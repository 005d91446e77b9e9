"""Answers of `openai-completions` as they go out: what they have words for, and their choices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from llm_proxy.dialects import response_encoding
from llm_proxy.dialects.base import Response
from llm_proxy.dialects.capabilities import Vocabulary, worded
from llm_proxy.dialects.encode_context import Delivery
from llm_proxy.dialects.openai import api, choices_decoder, errors
from llm_proxy.dialects.openai.choices_encoder import (
    Asked,
    ChoicesSpeech,
    envelope,
    failed,
    has_usage,
)
from llm_proxy.dialects.openai.family import Member
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.turns import Finish, Turn


def vocabulary(manner: Asked, speaker: Member) -> Vocabulary:
    """The words of this member of the family for such a request."""
    counts = has_usage(manner, speaker)
    return Vocabulary(
        dialect="openai-completions",
        streams=manner.stream,
        finishes=choices_decoder.FINISH,
        words={
            Finish.STOP: "stop",
            Finish.LENGTH: "length",
            Finish.CONTENT_FILTER: "content_filter",
            Finish.ERROR: "error",
        },
        id_prefix="cmpl-",
        counts=choices_decoder.COUNTS if counts else (),
        always=choices_decoder.COUNTED if counts else (),
        counts_always=counts,
        keeps=(*choices_decoder.OF_CHUNK, *choices_decoder.OF_CHOICE, choices_decoder.LOGPROBS),
        shared=choices_decoder.OF_CHUNK,
        choices=True,
        successive=manner.stream,
        arranged=choices_decoder.with_logprobs,
        failure=worded if manner.stream else partial(errors.instead, speaker=speaker),
        failed=failed,
    )


@dataclass(frozen=True, slots=True)
class CompletionSpeech:
    """Tells turns that fit."""

    manner: Asked
    speaker: Member
    delivery: Delivery

    def response(self, turns: Sequence[Turn]) -> Response:
        """The answer, a stream or a document."""
        headers = errors.headers(self.delivery)
        around = envelope(turns[0], "text_completion", self.delivery)
        if self.manner.stream:
            pieces = [self._pieces(at, turn) for at, turn in enumerate(turns)]
            ended = [_choice(at, "", turn) for at, turn in enumerate(turns)]
            successive = self.delivery.successive
            spoken = ChoicesSpeech(self.manner, self.speaker, around, successive)
            events = spoken.events(turns[0], pieces, ended)
            return response_encoding.streamed("sse", api.EVENTS, events, headers)
        each = [_choice(at, turn.text, turn) for at, turn in enumerate(turns)]
        usage = choices_decoder.usage_fields(turns[0].usage)
        return response_encoding.document({**around, "choices": each, "usage": usage}, headers)

    def _pieces(self, index: int, turn: Turn) -> Iterator[Document]:
        """What the chunks of one choice say, up to its finish; without one, that it is there."""
        if not turn.parts and turn.finish is None:
            yield _choice(index, "")
        for piece in self.delivery.cut(turn.text):
            yield _choice(index, piece)


def _choice(index: int, text: str, ended: Turn | None = None) -> Document:
    """A choice; that of a turn which ended says why, and how likely its tokens were."""
    said: Document = dict(ended.metadata) if ended else {}
    beside = {name: it for name, it in said.items() if name in choices_decoder.OF_CHOICE}
    return {
        "text": text,
        "index": index,
        "logprobs": said.get(choices_decoder.LOGPROBS),
        "finish_reason": ended.finish_raw if ended else None,
        **beside,
    }
