"""Decodes responses with choices: chats and legacy completions.

A stream is chunks without event names: pieces of choices, `finish_reason` once a choice, a chunk
of usage without choices where it was asked for, and `data: [DONE]`, which some servers leave out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final, Protocol

from llm_proxy.dialects import json_api, lenient_json
from llm_proxy.dialects.base import Completeness, DialectResponse
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.openai import api
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.turns import Failure, Finish, Json, Part, Turn, Usage

FINISH: Final = {
    "stop": Finish.STOP,
    "eos": Finish.STOP,
    "length": Finish.LENGTH,
    "model_length": Finish.CONTEXT_FULL,
    "tool_calls": Finish.TOOL_CALLS,
    "function_call": Finish.TOOL_CALLS,
    "content_filter": Finish.CONTENT_FILTER,
    "error": Finish.ERROR,
}
"""What each reason to finish means."""

OF_CHUNK: Final = ("system_fingerprint", "service_tier", "provider", "citations")
"""What an answer says of itself."""

OF_CHOICE: Final = ("native_finish_reason", "stop_reason")
"""What a choice says beside its finish."""

COUNTS: Final = ("input", "output", "total", "cache_read", "cache_write", "reasoning")
"""The counts that usage has words for."""
COUNTED: Final = COUNTS[:3]
"""Those that are always told."""

LOGPROBS: Final = "logprobs"
"""The metadata that holds how likely each token was, as lists of the provider's own entries."""

_CACHE_READ: Final = ("prompt_cache_hit_tokens", "cache_read_input_tokens", "cached_tokens")


class ChoiceContent(Protocol):
    """What one choice says, as its pieces come."""

    def feed(self, choice: Fields, *, streamed: bool) -> Iterable[tuple[str, Json]]:
        """Read one piece, or the whole choice; gives what is worth keeping beside the turn."""

    def result(self) -> tuple[Part, ...]:
        """What it says."""


def completeness(response: DialectResponse) -> Completeness:
    """Whole by `[DONE]`, by every choice finished, or by an error in the stream."""
    if response.codec != "sse" or not json_api.succeeded(response.head):
        return json_api.completeness(response)
    if any(map(api.is_done, reversed(response.messages))):
        return Completeness(is_complete=True, reason="[DONE]")
    return _stream_completeness(response)


def _stream_completeness(response: DialectResponse) -> Completeness:
    """A stream without `[DONE]` is whole by its own words only."""
    finished: dict[int, bool] = {}
    for document in _parse_documents(response):
        if error := document.get("error"):
            return json_api.completeness_by_error(json_api.decode_failure(error))
        for index, choice in _choices_by_index(document):
            finished[index] = finished.get(index, False) or bool(choice.get("finish_reason"))
    open_ones = [str(index) for index, done in sorted(finished.items()) if not done]
    if finished and not open_ones:
        return Completeness(is_complete=True, reason="every choice finished")
    if finished:
        reason = f"no [DONE], choice {', '.join(open_ones)} unfinished"
    else:
        reason = (
            "no [DONE], no choice" if json_api.joined_body(response).strip() else "empty stream"
        )
    return Completeness(is_complete=False, reason=reason)


def decode_turns(
    response: DialectResponse, content: Callable[[], ChoiceContent]
) -> tuple[Turn, ...]:
    """One turn a choice, each read by a `content` of its own.

    An error without choices is a turn of its own.
    """
    if not json_api.succeeded(response.head):
        return (Turn((), failure=json_api.decode_http_error(response)),)
    reader = _ChoicesDecoder(content, streamed=response.codec == "sse")
    for document in _parse_documents(response):
        reader.feed(document)
    return reader.decode_turns()


def _parse_documents(response: DialectResponse) -> Iterator[Fields]:
    """The chunks of a stream, or the one document of a body; an error is always in `error`."""
    if response.codec == "sse":
        yield from map(api.decode_event, response.messages)
    else:
        yield api.with_error_field(lenient_json.parse_object(json_api.joined_body(response)))


def _choices_by_index(document: Fields) -> Iterator[tuple[int, Fields]]:
    for position, choice in enumerate(lenient_json.object_items(document.get("choices"))):
        index = lenient_json.first_count(choice.get("index"))
        yield position if index is None else index, choice


class _ChoicesDecoder:
    """The turns of a response, as its documents come."""

    def __init__(self, content: Callable[[], ChoiceContent], *, streamed: bool) -> None:
        self._content = content
        self._streamed = streamed
        self._choices_by_index: dict[int, _ChoiceDecoder] = {}
        self._id = ""
        self._model = ""
        self._decode_usage: Usage | None = None
        self._failure: Failure | None = None
        self._metadata: dict[str, Json] = {}

    def feed(self, document: Fields) -> None:
        """Read one chunk; a body that does not stream is the only one."""
        self._id = self._id or lenient_json.printable_text(document.get("id"))
        self._model = self._model or lenient_json.printable_text(document.get("model"))
        self._decode_usage = _decode_usage(document) or self._decode_usage
        self._metadata.update(lenient_json.named_metadata(document, OF_CHUNK))
        if error := document.get("error"):
            self._failure = self._failure or json_api.decode_failure(error)
        for index, choice in _choices_by_index(document):
            self._choice_at(index).feed(choice, streamed=self._streamed)

    def decode_turns(self) -> tuple[Turn, ...]:
        """What was said; usage and errors of the stream belong to each choice."""
        if not self._choices_by_index and self._failure:
            self._choice_at(0)
        return tuple(self._turn_of(choice) for _, choice in sorted(self._choices_by_index.items()))

    def _choice_at(self, index: int) -> _ChoiceDecoder:
        if index not in self._choices_by_index:
            self._choices_by_index[index] = _ChoiceDecoder(self._content())
        return self._choices_by_index[index]

    def _turn_of(self, choice: _ChoiceDecoder) -> Turn:
        raw = choice.finish_raw
        return Turn(
            choice.content.result(),
            finish=FINISH.get(raw, Finish.OTHER) if raw else None,
            finish_raw=raw,
            usage=self._decode_usage,
            failure=choice.failure or self._failure,
            id=self._id,
            model=self._model,
            metadata=tuple((self._metadata | choice.metadata | choice.logprobs_metadata()).items()),
        )


class _ChoiceDecoder:
    """One choice, as its pieces come."""

    def __init__(self, content: ChoiceContent) -> None:
        self.content = content
        self.finish_raw = ""
        self.failure: Failure | None = None
        self.metadata: dict[str, Json] = {}
        self._logprobs: dict[str, list[Json]] = {}

    def feed(self, choice: Fields, *, streamed: bool) -> None:
        """Read one piece, or the whole choice."""
        for name, entries in decode_logprobs(
            lenient_json.object_fields(choice.get(LOGPROBS))
        ).items():
            self._logprobs.setdefault(name, []).extend(lenient_json.array_items(entries))
        self.finish_raw = (
            lenient_json.printable_text(choice.get("finish_reason")) or self.finish_raw
        )
        self.metadata.update(lenient_json.named_metadata(choice, OF_CHOICE))
        if error := choice.get("error"):
            self.failure = json_api.decode_failure(error)
        self.metadata.update(self.content.feed(choice, streamed=streamed))

    def logprobs_metadata(self) -> dict[str, Json]:
        """How likely its tokens were, where it says so."""
        return dict(lenient_json.named_metadata({LOGPROBS: {**self._logprobs}}, (LOGPROBS,)))


def decode_logprobs(fields: Fields) -> dict[str, Json]:
    """The lists among what is said of tokens; an empty one says nothing."""
    return {
        name: entries for name, entries in fields.items() if entries and isinstance(entries, list)
    }


def limit_logprobs(turn: Turn) -> Turn:
    """The turn with no more of its log probabilities than can be told."""
    fields = dict(turn.metadata)
    fields[LOGPROBS] = decode_logprobs(lenient_json.object_fields(fields.get(LOGPROBS)))
    return replace(turn, metadata=lenient_json.named_metadata(fields, fields))


def _decode_usage(document: Fields) -> Usage | None:
    """Top level; else where Groq's agents or Moonshot's choices keep it."""
    choices = lenient_json.object_items(document.get("choices"))
    items = [lenient_json.object_fields(document.get("x_groq")), *choices]
    places = (lenient_json.object_fields(fields.get("usage")) for fields in (document, *items))
    counts = next(filter(None, places), None)
    if counts is None:
        return None
    read = lenient_json.object_fields(counts.get("prompt_tokens_details"))
    written = lenient_json.object_fields(counts.get("completion_tokens_details"))
    return Usage(
        input=lenient_json.first_count(counts.get("prompt_tokens")),
        output=lenient_json.first_count(counts.get("completion_tokens")),
        total=lenient_json.first_count(counts.get("total_tokens")),
        cache_read=lenient_json.first_count(
            read.get("cached_tokens"),
            *(counts.get(name) for name in _CACHE_READ),
        ),
        cache_write=lenient_json.first_count(
            read.get("cache_write_tokens"), counts.get("cache_creation_input_tokens")
        ),
        reasoning=lenient_json.first_count(
            written.get("reasoning_tokens"), counts.get("reasoning_tokens")
        ),
    )


def encode_usage(usage: Usage | None) -> Document | None:
    """Usage as it is told."""
    if usage is None:
        return None
    read = {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write}
    written = {"reasoning_tokens": usage.reasoning}
    counts: Document = {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.total,
    }
    for name, details in (("prompt_tokens_details", read), ("completion_tokens_details", written)):
        fields: dict[str, Json] = {
            label: count for label, count in details.items() if count is not None
        }
        if fields:
            counts[name] = fields
    return counts
