"""Answers in choices, as OpenAI's chats and its older completions give them.

A stream is chunks without event names: pieces of choices, `finish_reason` once a choice, a chunk
of usage without choices where it was asked for, and `data: [DONE]`, which some servers leave out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final, Protocol

from llm_proxy.dialects import json_api, lenient_json
from llm_proxy.dialects.base import Judgement, Response
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


class Content(Protocol):
    """What one choice says, as its pieces come."""

    def take(self, choice: Fields, *, streamed: bool) -> Iterable[tuple[str, Json]]:
        """Read one piece, or the whole choice; gives what is worth keeping beside the turn."""

    def parts(self) -> tuple[Part, ...]:
        """What it says."""


def judge(response: Response) -> Judgement:
    """Whole by `[DONE]`, by every choice finished, or by an error in the stream."""
    if response.codec != "sse" or not json_api.succeeded(response.head):
        return json_api.judge(response)
    if any(map(api.is_done, reversed(response.messages))):
        return Judgement(whole=True, reason="[DONE]")
    return _judge_stream(response)


def _judge_stream(response: Response) -> Judgement:
    """A stream without `[DONE]` is whole by its own words only."""
    finished: dict[int, bool] = {}
    for document in _documents(response):
        if error := document.get("error"):
            return json_api.in_band(json_api.failure(error))
        for index, choice in _choices(document):
            finished[index] = finished.get(index, False) or bool(choice.get("finish_reason"))
    open_ones = [str(index) for index, done in sorted(finished.items()) if not done]
    if finished and not open_ones:
        return Judgement(whole=True, reason="every choice finished")
    if finished:
        reason = f"no [DONE], choice {', '.join(open_ones)} unfinished"
    else:
        reason = "no [DONE], no choice" if json_api.body(response).strip() else "empty stream"
    return Judgement(whole=False, reason=reason)


def turns(response: Response, content: Callable[[], Content]) -> tuple[Turn, ...]:
    """One turn a choice, each read by a `content` of its own.

    An error without choices is a turn of its own.
    """
    if not json_api.succeeded(response.head):
        return (Turn((), failure=json_api.http_failure(response)),)
    reader = _Reader(content, streamed=response.codec == "sse")
    for document in _documents(response):
        reader.take(document)
    return reader.turns()


def _documents(response: Response) -> Iterator[Fields]:
    """The chunks of a stream, or the one document of a body; an error is always in `error`."""
    if response.codec == "sse":
        yield from map(api.said, response.messages)
    else:
        yield api.lifted(lenient_json.document(json_api.body(response)))


def _choices(document: Fields) -> Iterator[tuple[int, Fields]]:
    """The choices of a chunk or document under their index."""
    for position, choice in enumerate(lenient_json.objects(document.get("choices"))):
        index = lenient_json.count(choice.get("index"))
        yield position if index is None else index, choice


class _Reader:
    """The turns of a response, as its documents come."""

    def __init__(self, content: Callable[[], Content], *, streamed: bool) -> None:
        self._content = content
        self._streamed = streamed
        self._choices: dict[int, _Choice] = {}
        self._id = ""
        self._model = ""
        self._usage: Usage | None = None
        self._failure: Failure | None = None
        self._metadata: dict[str, Json] = {}

    def take(self, document: Fields) -> None:
        """Read one chunk; a body that does not stream is the only one."""
        self._id = self._id or lenient_json.words(document.get("id"))
        self._model = self._model or lenient_json.words(document.get("model"))
        self._usage = _usage(document) or self._usage
        self._metadata.update(lenient_json.metadata(document, OF_CHUNK))
        if error := document.get("error"):
            self._failure = self._failure or json_api.failure(error)
        for index, choice in _choices(document):
            self._choice(index).take(choice, streamed=self._streamed)

    def turns(self) -> tuple[Turn, ...]:
        """What was said; usage and errors of the stream belong to each choice."""
        if not self._choices and self._failure:
            self._choice(0)
        return tuple(self._turn(choice) for _, choice in sorted(self._choices.items()))

    def _choice(self, index: int) -> _Choice:
        if index not in self._choices:
            self._choices[index] = _Choice(self._content())
        return self._choices[index]

    def _turn(self, choice: _Choice) -> Turn:
        raw = choice.finish_raw
        return Turn(
            choice.content.parts(),
            finish=FINISH.get(raw, Finish.OTHER) if raw else None,
            finish_raw=raw,
            usage=self._usage,
            failure=choice.failure or self._failure,
            id=self._id,
            model=self._model,
            metadata=tuple((self._metadata | choice.metadata | choice.likely()).items()),
        )


class _Choice:
    """One choice, as its pieces come."""

    def __init__(self, content: Content) -> None:
        self.content = content
        self.finish_raw = ""
        self.failure: Failure | None = None
        self.metadata: dict[str, Json] = {}
        self._logprobs: dict[str, list[Json]] = {}

    def take(self, choice: Fields, *, streamed: bool) -> None:
        """Read one piece, or the whole choice."""
        for name, entries in logprobs(lenient_json.fields(choice.get(LOGPROBS))).items():
            self._logprobs.setdefault(name, []).extend(lenient_json.array(entries))
        self.finish_raw = lenient_json.words(choice.get("finish_reason")) or self.finish_raw
        self.metadata.update(lenient_json.metadata(choice, OF_CHOICE))
        if error := choice.get("error"):
            self.failure = json_api.failure(error)
        self.metadata.update(self.content.take(choice, streamed=streamed))

    def likely(self) -> dict[str, Json]:
        """How likely its tokens were, where it says so."""
        return dict(lenient_json.metadata({LOGPROBS: {**self._logprobs}}, (LOGPROBS,)))


def logprobs(said: Fields) -> dict[str, Json]:
    """The lists among what is said of tokens; an empty one says nothing."""
    return {
        name: entries for name, entries in said.items() if entries and isinstance(entries, list)
    }


def with_logprobs(turn: Turn) -> Turn:
    """The turn with no more of its log probabilities than can be told."""
    said = dict(turn.metadata)
    said[LOGPROBS] = logprobs(lenient_json.fields(said.get(LOGPROBS)))
    return replace(turn, metadata=lenient_json.metadata(said, said))


def _usage(document: Fields) -> Usage | None:
    """Top level; else where Groq's agents or Moonshot's choices keep it."""
    choices = lenient_json.objects(document.get("choices"))
    beside = [lenient_json.fields(document.get("x_groq")), *choices]
    places = (lenient_json.fields(it.get("usage")) for it in (document, *beside))
    counts = next(filter(None, places), None)
    if counts is None:
        return None
    read = lenient_json.fields(counts.get("prompt_tokens_details"))
    written = lenient_json.fields(counts.get("completion_tokens_details"))
    return Usage(
        input=lenient_json.count(counts.get("prompt_tokens")),
        output=lenient_json.count(counts.get("completion_tokens")),
        total=lenient_json.count(counts.get("total_tokens")),
        cache_read=lenient_json.count(
            read.get("cached_tokens"),
            *(counts.get(name) for name in _CACHE_READ),
        ),
        cache_write=lenient_json.count(
            read.get("cache_write_tokens"), counts.get("cache_creation_input_tokens")
        ),
        reasoning=lenient_json.count(
            written.get("reasoning_tokens"), counts.get("reasoning_tokens")
        ),
    )


def usage_fields(usage: Usage | None) -> Document | None:
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
        said: dict[str, Json] = {
            what: count for what, count in details.items() if count is not None
        }
        if said:
            counts[name] = said
    return counts
