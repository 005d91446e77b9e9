"""Streams of choices as they go out: what `openai-chat` and `openai-completions` have in common.

    chunk* finish [usage] [DONE]

Of several choices, each chunk belongs to one.  They take turns, and each finishes; or they come one
after the other, and the first one finishes for all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest

from llm_proxy.dialects import lenient_json, response_encoding
from llm_proxy.dialects.capabilities import kept
from llm_proxy.dialects.encode_context import Delivery
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.openai import api, choices_decoder, errors
from llm_proxy.dialects.openai.family import Member
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.framing import sse
from llm_proxy.turns import Turn


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request asks of the manner of its answer."""

    stream: bool
    usage: bool
    """Whether a stream is to tell usage."""


def asked(body: Fields) -> Asked:
    """What the body of a request asks for."""
    options = lenient_json.fields(body.get("stream_options"))
    return Asked(body.get("stream") is True, options.get("include_usage") is True)


def has_usage(manner: Asked, speaker: Member) -> bool:
    """Whether such an answer of this member of the family tells usage."""
    return not manner.stream or manner.usage or speaker.usage_at_finish


def failed(turn: Turn) -> Turn:
    """What a stream tells before its end: neither usage nor what stands beside the finish."""
    return replace(turn, usage=None, metadata=kept(turn.metadata, choices_decoder.OF_CHUNK))


def envelope(turn: Turn, kind: str, delivery: Delivery) -> Document:
    """What stands around the choices of every chunk, or of the whole answer."""
    return {
        "id": turn.id,
        "object": kind,
        "created": delivery.created,
        "model": turn.model,
        **dict(kept(turn.metadata, choices_decoder.OF_CHUNK)),
    }


@dataclass(frozen=True, slots=True)
class ChoicesSpeech:
    """Tells choices in chunks."""

    manner: Asked
    speaker: Member
    around: Document
    """What stands around the choices of a chunk."""
    successive: bool = False
    """Whether choices come one after the other, and finish once."""

    def events(
        self,
        first: Turn,
        pieces: Sequence[Iterator[Document]],
        ended: Sequence[Document],
    ) -> Iterator[bytes]:
        """The stream of an answer whose first turn is this.

        `pieces` are what each choice says up to its finish; `ended`, how each finishes.
        """
        each = pieces if self.successive else zip_longest(*pieces)
        ended = ended[:1] if self.successive else ended
        for choice in filter(None, chain.from_iterable(each)):
            yield self._event([choice])
        if first.failure is not None:
            error = {"error": errors.fields(first.failure, self.speaker)}
            yield sse.event(response_encoding.written(error), self.speaker.error_event)
            return
        counts = choices_decoder.usage_fields(first.usage)
        for choice in ended:
            at_finish = self.speaker.usage_at_finish and choice is ended[-1]
            yield self._event([choice], usage=counts if at_finish else None)
        if self.manner.usage and not self.speaker.usage_at_finish:
            yield self._event([], usage=counts)
        if self.speaker.done:
            yield api.DONE

    def _event(self, each: list[Document], usage: Document | None = None) -> bytes:
        chunk = {**self.around, "choices": each}
        if usage is not None or self.manner.usage:
            chunk["usage"] = usage
        return sse.event(response_encoding.written(chunk))
