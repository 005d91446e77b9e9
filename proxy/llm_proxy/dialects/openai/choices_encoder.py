"""Encodes streams of choices: chats and legacy completions.

    chunk* finish [usage] [DONE]

Each chunk belongs to one choice.  Chunks of several choices either alternate, and each choice
finishes; or the choices follow one another, and only the first has a finish chunk.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest

from llm_proxy.dialects import lenient_json, response_encoding
from llm_proxy.dialects.capabilities import nonempty_metadata
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.openai import choices_decoder, errors, shared_format
from llm_proxy.dialects.openai.provider_variants import ProviderVariant
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.dialects.wire import with_default_error_message
from llm_proxy.framing import sse
from llm_proxy.turns import Turn


@dataclass(frozen=True, slots=True)
class ResponseOptions:
    """The options of a request that shape its response."""

    stream: bool
    includes_usage: bool
    """Whether the request sets `stream_options.include_usage`."""


def response_options(body: Fields) -> ResponseOptions:
    """The response options in the body of a request."""
    options = lenient_json.object_fields(body.get("stream_options"))
    return ResponseOptions(body.get("stream") is True, options.get("include_usage") is True)


def response_includes_usage(options: ResponseOptions, variant: ProviderVariant) -> bool:
    """Whether the provider sends usage in a response with these options."""
    return not options.stream or options.includes_usage or variant.sends_usage_with_finish


def failed_stream_turn(turn: Turn) -> Turn:
    """The turn of a stream that fails: without usage and without metadata of the finish."""
    return replace(
        turn,
        usage=None,
        metadata=nonempty_metadata(turn.metadata, choices_decoder.RESPONSE_METADATA_FIELDS),
    )


def response_envelope(turn: Turn, object_type: str, context: EncodeContext) -> Document:
    """The fields beside `choices` of every chunk, or of the whole response."""
    return {
        "id": turn.id,
        "object": object_type,
        "created": context.created_unix_s,
        "model": turn.model,
        **dict(nonempty_metadata(turn.metadata, choices_decoder.RESPONSE_METADATA_FIELDS)),
    }


@dataclass(frozen=True, slots=True)
class ChoicesStreamEncoder:
    """Encodes the choices of a stream as SSE chunks."""

    options: ResponseOptions
    variant: ProviderVariant
    envelope_fields: Document
    """The fields beside `choices` of every chunk."""
    choices_are_successive: bool = False
    """Whether choices follow one another with one finish chunk, rather than alternate."""

    def encode_events(
        self,
        first_turn: Turn,
        choice_pieces: Sequence[Iterator[Document]],
        final_choices: Sequence[Document],
    ) -> Iterator[bytes]:
        """The SSE events of a response; `first_turn` holds its failure and usage.

        `choice_pieces` are the choice objects up to the finish, one iterator per choice;
        `final_choices` are the choice objects with the finish reasons.
        """
        choices = choice_pieces if self.choices_are_successive else zip_longest(*choice_pieces)
        final_choices = final_choices[:1] if self.choices_are_successive else final_choices
        for choice in filter(None, chain.from_iterable(choices)):
            yield self._encode_chunk([choice])
        if first_turn.failure is not None:
            failure = with_default_error_message(first_turn.failure)
            error = {"error": errors.error_fields(failure, self.variant)}
            yield sse.encode_event(
                response_encoding.single_line_json(error), self.variant.error_event_name
            )
            return
        usage = choices_decoder.encode_usage(first_turn.usage)
        for choice in final_choices:
            holds_usage = self.variant.sends_usage_with_finish and choice is final_choices[-1]
            yield self._encode_chunk([choice], usage=usage if holds_usage else None)
        if self.options.includes_usage and not self.variant.sends_usage_with_finish:
            yield self._encode_chunk([], usage=usage)
        if self.variant.sends_done:
            yield shared_format.DONE_EVENT

    def _encode_chunk(self, choices: list[Document], usage: Document | None = None) -> bytes:
        chunk = {**self.envelope_fields, "choices": choices}
        if usage is not None or self.options.includes_usage:
            chunk["usage"] = usage
        return sse.encode_event(response_encoding.single_line_json(chunk))
