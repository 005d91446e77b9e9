"""Encodes streams of choices: chats and legacy completions.

    chunk* finish [usage] [DONE]

Of several choices, each chunk belongs to one.  They take turns, and each finishes; or they come one
after the other, and the first one finishes for all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest

from llm_proxy.dialects import lenient_json, response_encoding
from llm_proxy.dialects.capabilities import nonempty_metadata
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.openai import api, choices_decoder, errors
from llm_proxy.dialects.openai.provider_variants import FamilyMember
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.framing import sse
from llm_proxy.turns import Turn


@dataclass(frozen=True, slots=True)
class ResponseOptions:
    """What a request asks of the manner of its answer."""

    stream: bool
    includes_usage: bool
    """Whether a stream is to tell usage."""


def response_options(body: Fields) -> ResponseOptions:
    """What the body of a request asks for."""
    options = lenient_json.object_fields(body.get("stream_options"))
    return ResponseOptions(body.get("stream") is True, options.get("include_usage") is True)


def includes_usage_chunk(manner: ResponseOptions, speaker: FamilyMember) -> bool:
    """Whether such an answer of this member of the family tells usage."""
    return not manner.stream or manner.includes_usage or speaker.usage_with_finish


def as_failed_stream(turn: Turn) -> Turn:
    """What a stream tells before its end: neither usage nor what stands beside the finish."""
    return replace(
        turn, usage=None, metadata=nonempty_metadata(turn.metadata, choices_decoder.OF_CHUNK)
    )


def chunk_envelope(turn: Turn, kind: str, context: EncodeContext) -> Document:
    """What stands around the choices of every chunk, or of the whole answer."""
    return {
        "id": turn.id,
        "object": kind,
        "created": context.created,
        "model": turn.model,
        **dict(nonempty_metadata(turn.metadata, choices_decoder.OF_CHUNK)),
    }


@dataclass(frozen=True, slots=True)
class ChoicesEncoder:
    """Tells choices in chunks."""

    options: ResponseOptions
    member: FamilyMember
    envelope_fields: Document
    """What stands around the choices of a chunk."""
    turns_are_successive: bool = False
    """Whether choices come one after the other, and finish once."""

    def encode_events(
        self,
        first: Turn,
        pieces: Sequence[Iterator[Document]],
        finish_fields: Sequence[Document],
    ) -> Iterator[bytes]:
        """The stream of an answer whose first turn is this.

        `pieces` are what each choice says up to its finish; `ended`, how each finishes.
        """
        items = pieces if self.turns_are_successive else zip_longest(*pieces)
        finish_fields = finish_fields[:1] if self.turns_are_successive else finish_fields
        for choice in filter(None, chain.from_iterable(items)):
            yield self._encode_event([choice])
        if first.failure is not None:
            error = {"error": errors.error_fields(first.failure, self.member)}
            yield sse.encode_event(response_encoding.json_line(error), self.member.error_event_name)
            return
        counts = choices_decoder.encode_usage(first.usage)
        for choice in finish_fields:
            at_finish = self.member.usage_with_finish and choice is finish_fields[-1]
            yield self._encode_event([choice], usage=counts if at_finish else None)
        if self.options.includes_usage and not self.member.usage_with_finish:
            yield self._encode_event([], usage=counts)
        if self.member.sends_done:
            yield api.DONE

    def _encode_event(self, items: list[Document], usage: Document | None = None) -> bytes:
        chunk = {**self.envelope_fields, "choices": items}
        if usage is not None or self.options.includes_usage:
            chunk["usage"] = usage
        return sse.encode_event(response_encoding.json_line(chunk))
