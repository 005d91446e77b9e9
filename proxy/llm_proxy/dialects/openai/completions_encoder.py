"""Encodes `openai-completions` responses, and what they can represent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from llm_proxy.dialects import response_encoding
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.capabilities import Capabilities
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.openai import choices_decoder, errors, shared_format
from llm_proxy.dialects.openai.choices_encoder import (
    ChoicesStreamEncoder,
    ResponseOptions,
    failed_stream_turn,
    response_envelope,
    response_includes_usage,
)
from llm_proxy.dialects.openai.provider_variants import ProviderVariant
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.dialects.wire import with_default_error_message
from llm_proxy.turns import FinishReason, Turn


def capabilities(options: ResponseOptions, variant: ProviderVariant) -> Capabilities:
    """What the provider's response to such a request can represent: text alone."""
    has_usage = response_includes_usage(options, variant)
    return Capabilities(
        dialect="openai-completions",
        is_streamed=options.stream,
        finish_by_raw_reason=choices_decoder.FINISH_BY_REASON,
        raw_reason_by_finish={
            FinishReason.STOP: "stop",
            FinishReason.LENGTH: "length",
            FinishReason.CONTENT_FILTER: "content_filter",
            FinishReason.ERROR: "error",
        },
        id_prefix="cmpl-",
        usage_fields=choices_decoder.USAGE_FIELDS if has_usage else (),
        required_usage_fields=choices_decoder.REQUIRED_USAGE_FIELDS if has_usage else (),
        always_has_usage=has_usage,
        metadata_names=(
            *choices_decoder.RESPONSE_METADATA_FIELDS,
            *choices_decoder.CHOICE_METADATA_FIELDS,
            choices_decoder.LOGPROBS,
        ),
        response_level_metadata_names=choices_decoder.RESPONSE_METADATA_FIELDS,
        response_allows_several_choices=True,
        response_allows_successive_choices=options.stream,
        normalize_turn=choices_decoder.with_representable_logprobs,
        convert_failure=with_default_error_message
        if options.stream
        else partial(errors.as_http_error_failure, member=variant),
        convert_failed_turn=failed_stream_turn,
    )


@dataclass(frozen=True, slots=True)
class CompletionEncoder:
    """Encodes converted turns as a completion response."""

    options: ResponseOptions
    variant: ProviderVariant
    context: EncodeContext

    def encode_response(self, turns: Sequence[Turn]) -> DialectResponse:
        """The response: a stream or a JSON document; each turn is one choice."""
        headers = errors.common_response_headers(self.context)
        envelope = response_envelope(turns[0], "text_completion", self.context)
        if self.options.stream:
            choice_pieces = [self._encode_choice_chunks(at, turn) for at, turn in enumerate(turns)]
            final_choices = [_encode_choice(at, "", turn) for at, turn in enumerate(turns)]
            turns_are_successive = self.context.choices_are_successive
            encoder = ChoicesStreamEncoder(
                self.options, self.variant, envelope, turns_are_successive
            )
            events = encoder.encode_events(turns[0], choice_pieces, final_choices)
            return response_encoding.stream_response(
                "sse", shared_format.EVENT_STREAM_CONTENT_TYPE, events, headers
            )
        choices = [_encode_choice(at, turn.text, turn) for at, turn in enumerate(turns)]
        usage = choices_decoder.encode_usage(turns[0].usage)
        return response_encoding.json_response(
            {**envelope, "choices": choices, "usage": usage}, headers
        )

    def _encode_choice_chunks(self, index: int, turn: Turn) -> Iterator[Document]:
        """The choice objects before the finish; an empty one for a turn without parts or finish."""
        if not turn.parts and turn.finish is None:
            yield _encode_choice(index, "")
        for piece in self.context.split_text(turn.text):
            yield _encode_choice(index, piece)


def _encode_choice(index: int, text: str, finished_turn: Turn | None = None) -> Document:
    """A choice object; with `finished_turn`, also its finish reason and log probabilities."""
    document: Document = dict(finished_turn.metadata) if finished_turn else {}
    fields = {
        name: value
        for name, value in document.items()
        if name in choices_decoder.CHOICE_METADATA_FIELDS
    }
    return {
        "text": text,
        "index": index,
        "logprobs": document.get(choices_decoder.LOGPROBS),
        "finish_reason": finished_turn.finish_raw if finished_turn else None,
        **fields,
    }
