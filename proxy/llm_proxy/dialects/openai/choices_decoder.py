"""Decodes responses with choices: chats and legacy completions.

A stream is chunks without event names: pieces of choices, one `finish_reason` per choice, a usage
chunk without choices if requested, and `data: [DONE]`, which some servers omit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final, Protocol

from llm_proxy.dialects import json_api, lenient_json
from llm_proxy.dialects.base import Completeness, DialectResponse
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.openai import shared_format
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.dialects.wire import UsageFields
from llm_proxy.turns import Failure, FinishReason, Json, Part, Turn, Usage

FINISH_BY_REASON: Final = {
    "stop": FinishReason.STOP,
    "eos": FinishReason.STOP,
    "length": FinishReason.LENGTH,
    "model_length": FinishReason.CONTEXT_FULL,
    "tool_calls": FinishReason.TOOL_CALLS,
    "function_call": FinishReason.TOOL_CALLS,
    "content_filter": FinishReason.CONTENT_FILTER,
    "error": FinishReason.ERROR,
}
"""The `FinishReason` of each `finish_reason`; any other is `OTHER`."""

RESPONSE_METADATA_FIELDS: Final = ("system_fingerprint", "service_tier", "provider", "citations")
"""Metadata fields of the whole response, repeated in every chunk."""

CHOICE_METADATA_FIELDS: Final = ("native_finish_reason", "stop_reason")
"""Metadata fields of a choice, beside its finish reason."""

USAGE: Final = UsageFields(
    {
        "input": ("prompt_tokens",),
        "output": ("completion_tokens",),
        "total": ("total_tokens",),
        "cache_read": ("prompt_tokens_details", "cached_tokens"),
        "cache_write": ("prompt_tokens_details", "cache_write_tokens"),
        "reasoning": ("completion_tokens_details", "reasoning_tokens"),
    },
    required=("input", "output", "total"),
    is_required=True,
    also_at={
        "cache_read": (
            ("prompt_cache_hit_tokens",),
            ("cache_read_input_tokens",),
            ("cached_tokens",),
        ),
        "cache_write": (("cache_creation_input_tokens",),),
        "reasoning": (("reasoning_tokens",),),
    },
)

LOGPROBS: Final = "logprobs"
"""The metadata field for log probabilities of tokens: lists of the provider's own entries."""


class ChoiceContentDecoder(Protocol):
    """Decodes the content of one choice from its pieces."""

    def feed(self, choice: Fields, *, streamed: bool) -> Iterable[tuple[str, Json]]:
        """Decode one piece, or the whole choice; returns metadata of the turn."""

    def decoded_parts(self) -> tuple[Part, ...]:
        """The parts of the choice so far."""


def completeness(response: DialectResponse) -> Completeness:
    """Complete at `[DONE]`, when every choice is finished, or at an error in the stream."""
    if response.codec_name != "sse" or not json_api.succeeded(response.head):
        return json_api.completeness(response)
    if any(map(shared_format.is_done_event, reversed(response.framed_messages))):
        return Completeness(is_complete=True, reason="[DONE]")
    return _stream_completeness(response)


def _stream_completeness(response: DialectResponse) -> Completeness:
    """Whether a stream without `[DONE]` is complete: by an error or its finish reasons."""
    is_finished_by_index: dict[int, bool] = {}
    for document in _parse_response_objects(response):
        if error := document.get("error"):
            return json_api.completed_by_error(json_api.decode_failure(error))
        for index, choice in _indexed_choices(document):
            is_finished_by_index[index] = is_finished_by_index.get(index, False) or bool(
                choice.get("finish_reason")
            )
    unfinished = [str(index) for index, done in sorted(is_finished_by_index.items()) if not done]
    if is_finished_by_index and not unfinished:
        return Completeness(is_complete=True, reason="every choice finished")
    if is_finished_by_index:
        reason = f"no [DONE], choice {', '.join(unfinished)} unfinished"
    else:
        reason = (
            "no [DONE], no choice" if json_api.joined_body(response).strip() else "empty stream"
        )
    return Completeness(is_complete=False, reason=reason)


def decode_choices(
    response: DialectResponse, new_content_decoder: Callable[[], ChoiceContentDecoder]
) -> tuple[Turn, ...]:
    """One turn per choice; `new_content_decoder` is called once for each choice.

    An error without choices is one turn.
    """
    if not json_api.succeeded(response.head):
        return (Turn((), failure=json_api.decode_http_error(response)),)
    decoder = _ChoicesDecoder(new_content_decoder, streamed=response.codec_name == "sse")
    for document in _parse_response_objects(response):
        decoder.feed(document)
    return decoder.build_turns()


def _parse_response_objects(response: DialectResponse) -> Iterator[Fields]:
    """The chunks of a stream, or the document of a body; an error is always in `error`."""
    if response.codec_name == "sse":
        yield from map(shared_format.decode_event, response.framed_messages)
    else:
        yield shared_format.wrap_error_object(
            lenient_json.parse_object(json_api.joined_body(response))
        )


def _indexed_choices(document: Fields) -> Iterator[tuple[int, Fields]]:
    for position, choice in enumerate(lenient_json.array_objects(document.get("choices"))):
        index = lenient_json.first_integer(choice.get("index"))
        yield position if index is None else index, choice


class _ChoicesDecoder:
    """Decodes the turns of a response from its documents."""

    def __init__(
        self, new_content_decoder: Callable[[], ChoiceContentDecoder], *, streamed: bool
    ) -> None:
        self._new_content_decoder = new_content_decoder
        self._streamed = streamed
        self._choices_by_index: dict[int, _ChoiceDecoder] = {}
        self._id = ""
        self._model = ""
        self._usage: Usage | None = None
        self._failure: Failure | None = None
        self._metadata: dict[str, Json] = {}

    def feed(self, document: Fields) -> None:
        """Decode one chunk, or the whole body of a response that does not stream."""
        self._id = self._id or lenient_json.value_as_text(document.get("id"))
        self._model = self._model or lenient_json.value_as_text(document.get("model"))
        self._usage = _decode_usage(document) or self._usage
        self._metadata.update(lenient_json.select_metadata(document, RESPONSE_METADATA_FIELDS))
        if error := document.get("error"):
            self._failure = self._failure or json_api.decode_failure(error)
        for index, choice in _indexed_choices(document):
            self._choice_decoder_at(index).feed(choice, streamed=self._streamed)

    def build_turns(self) -> tuple[Turn, ...]:
        """One turn per choice; usage and errors of the stream are repeated in each."""
        if not self._choices_by_index and self._failure:
            self._choice_decoder_at(0)
        return tuple(
            self._build_turn(choice) for _, choice in sorted(self._choices_by_index.items())
        )

    def _choice_decoder_at(self, index: int) -> _ChoiceDecoder:
        if index not in self._choices_by_index:
            self._choices_by_index[index] = _ChoiceDecoder(self._new_content_decoder())
        return self._choices_by_index[index]

    def _build_turn(self, choice: _ChoiceDecoder) -> Turn:
        raw = choice.finish_raw
        return Turn(
            choice.content_decoder.decoded_parts(),
            finish=FINISH_BY_REASON.get(raw, FinishReason.OTHER) if raw else None,
            finish_raw=raw,
            usage=self._usage,
            failure=choice.failure or self._failure,
            id=self._id,
            model=self._model,
            metadata=tuple((self._metadata | choice.metadata | choice.logprobs_metadata()).items()),
        )


class _ChoiceDecoder:
    """Decodes one choice from its pieces."""

    def __init__(self, content_decoder: ChoiceContentDecoder) -> None:
        self.content_decoder = content_decoder
        self.finish_raw = ""
        self.failure: Failure | None = None
        self.metadata: dict[str, Json] = {}
        self._logprobs: dict[str, list[Json]] = {}

    def feed(self, choice: Fields, *, streamed: bool) -> None:
        """Decode one piece, or the whole choice."""
        for name, entries in nonempty_logprobs(
            lenient_json.object_fields(choice.get(LOGPROBS))
        ).items():
            self._logprobs.setdefault(name, []).extend(lenient_json.array_items(entries))
        self.finish_raw = lenient_json.value_as_text(choice.get("finish_reason")) or self.finish_raw
        self.metadata.update(lenient_json.select_metadata(choice, CHOICE_METADATA_FIELDS))
        if error := choice.get("error"):
            self.failure = json_api.decode_failure(error)
        self.metadata.update(self.content_decoder.feed(choice, streamed=streamed))

    def logprobs_metadata(self) -> dict[str, Json]:
        """The log probabilities of its tokens as metadata; empty where there are none."""
        return dict(lenient_json.select_metadata({LOGPROBS: {**self._logprobs}}, (LOGPROBS,)))


def nonempty_logprobs(fields: Fields) -> dict[str, Json]:
    """The fields of a `logprobs` object that are non-empty lists."""
    return {
        name: entries for name, entries in fields.items() if entries and isinstance(entries, list)
    }


def with_representable_logprobs(turn: Turn) -> Turn:
    """The turn, its `logprobs` reduced to the non-empty lists that the format can represent."""
    fields = dict(turn.metadata)
    fields[LOGPROBS] = nonempty_logprobs(lenient_json.object_fields(fields.get(LOGPROBS)))
    return replace(turn, metadata=lenient_json.select_metadata(fields, fields))


def _decode_usage(document: Fields) -> Usage | None:
    """Usage at the top level, else in `x_groq` (Groq's agents) or in a choice (Moonshot)."""
    choices = lenient_json.array_objects(document.get("choices"))
    items = [lenient_json.object_fields(document.get("x_groq")), *choices]
    candidates = (lenient_json.object_fields(fields.get("usage")) for fields in (document, *items))
    usage_fields = next(filter(None, candidates), None)
    return None if usage_fields is None else USAGE.decode(usage_fields)


def encode_usage(usage: Usage | None) -> Document | None:
    """The `usage` object; None without usage."""
    return None if usage is None else USAGE.encode(usage)
