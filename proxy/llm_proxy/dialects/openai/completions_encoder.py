"""Encodes `openai-completions` responses, and what they can represent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from llm_proxy.dialects import response_encoding
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.capabilities import Capabilities, with_message
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.openai import api, choices_decoder, errors
from llm_proxy.dialects.openai.choices_encoder import (
    ChoicesEncoder,
    ResponseOptions,
    as_failed_stream,
    chunk_envelope,
    includes_usage_chunk,
)
from llm_proxy.dialects.openai.provider_variants import FamilyMember
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.turns import Finish, Turn


def capabilities(manner: ResponseOptions, speaker: FamilyMember) -> Capabilities:
    """The words of this member of the family for such a request."""
    counts = includes_usage_chunk(manner, speaker)
    return Capabilities(
        dialect="openai-completions",
        streams=manner.stream,
        finish_of_raw=choices_decoder.FINISH,
        raw_of_finish={
            Finish.STOP: "stop",
            Finish.LENGTH: "length",
            Finish.CONTENT_FILTER: "content_filter",
            Finish.ERROR: "error",
        },
        id_prefix="cmpl-",
        usage_fields=choices_decoder.COUNTS if counts else (),
        required_usage_fields=choices_decoder.COUNTED if counts else (),
        always_has_usage=counts,
        metadata_names=(
            *choices_decoder.OF_CHUNK,
            *choices_decoder.OF_CHOICE,
            choices_decoder.LOGPROBS,
        ),
        shared_metadata_names=choices_decoder.OF_CHUNK,
        allows_several_turns=True,
        allows_successive_turns=manner.stream,
        arrange=choices_decoder.limit_logprobs,
        convert_failure=with_message
        if manner.stream
        else partial(errors.as_whole_error, member=speaker),
        convert_failed_turn=as_failed_stream,
    )


@dataclass(frozen=True, slots=True)
class CompletionEncoder:
    """Tells turns that fit."""

    options: ResponseOptions
    member: FamilyMember
    context: EncodeContext

    def encode_response(self, turns: Sequence[Turn]) -> DialectResponse:
        """The answer, a stream or a document."""
        headers = errors.response_headers(self.context)
        around = chunk_envelope(turns[0], "text_completion", self.context)
        if self.options.stream:
            pieces = [self._encode_choice_chunks(at, turn) for at, turn in enumerate(turns)]
            ended = [_encode_choice(at, "", turn) for at, turn in enumerate(turns)]
            successive = self.context.turns_are_successive
            spoken = ChoicesEncoder(self.options, self.member, around, successive)
            events = spoken.encode_events(turns[0], pieces, ended)
            return response_encoding.stream_response("sse", api.EVENTS, events, headers)
        items = [_encode_choice(at, turn.text, turn) for at, turn in enumerate(turns)]
        usage = choices_decoder.encode_usage(turns[0].usage)
        return response_encoding.json_response(
            {**around, "choices": items, "usage": usage}, headers
        )

    def _encode_choice_chunks(self, index: int, turn: Turn) -> Iterator[Document]:
        """What the chunks of one choice say, up to its finish; without one, that it is there."""
        if not turn.parts and turn.finish is None:
            yield _encode_choice(index, "")
        for piece in self.context.split_text(turn.text):
            yield _encode_choice(index, piece)


def _encode_choice(index: int, text: str, ended: Turn | None = None) -> Document:
    """A choice; that of a turn which ended says why, and how likely its tokens were."""
    document: Document = dict(ended.metadata) if ended else {}
    fields = {name: value for name, value in document.items() if name in choices_decoder.OF_CHOICE}
    return {
        "text": text,
        "index": index,
        "logprobs": document.get(choices_decoder.LOGPROBS),
        "finish_reason": ended.finish_raw if ended else None,
        **fields,
    }
