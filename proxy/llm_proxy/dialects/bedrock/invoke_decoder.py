"""What a model on Amazon Bedrock says in its maker's own shape, and in Converse's.

InvokeModel gives the maker's document, and streams its events, each in a frame `chunk`.  Which
maker it is shows in the documents alone: behind an inference profile the path does not tell.
Bedrock puts fields of its own beside theirs, of which `amazon-bedrock-invocationMetrics` comes
with the last event of a stream, whoever made the model.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.anthropic import message_decoder
from llm_proxy.dialects.anthropic.message_decoder import Messages, failure, kind, stop_reason
from llm_proxy.dialects.bedrock import completion_decoder, converse_decoder, usage
from llm_proxy.dialects.bedrock.completion_decoder import Completions
from llm_proxy.dialects.bedrock.converse_decoder import DELTA, EVENTS, Converse
from llm_proxy.dialects.bedrock.usage import METRICS
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.turns import Failure, Json, Turn

PREFIX: Final = "amazon-bedrock-"
"""What the fields begin with that the service itself puts beside a model's own."""

_EVENTS: Final = frozenset(EVENTS)

_ANTHROPIC: Final = frozenset(
    (
        "message",
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
        "completion",
        "ping",
        "error",
    )
)


class Answer:
    """The turns of a response, and whether it has ended, as its documents and events come."""

    def __init__(self) -> None:
        self._anthropic = Messages()
        self._converse = Converse()
        self._nova = Converse(joins_text=True)
        self._completions = Completions()
        self._beside: dict[str, Json] = {}
        self._end = ""
        self.failure: Failure | None = None
        """The model's own error inside its stream."""

    @property
    def end(self) -> str:
        """What said that nothing more would come but counts; empty before that."""
        return self._end or ("every choice finished" if self._completions.have_finished else "")

    def take_event(self, event: str, said: Fields) -> None:
        """Read one event of ConverseStream."""
        self._converse.take(event, said)
        if self._converse.stop_reason:
            self._end = f"messageStop: {self._converse.stop_reason}"

    def take(self, said: Fields, *, streamed: bool) -> None:
        """Read one document, or one event of a model's own; other shapes are left out."""
        self._note(said)
        said = _typed(said)
        if kind(said) in _ANTHROPIC:
            self._take_anthropic(said)
        elif isinstance(said.get("output"), dict):
            self._converse.take_document(said)
        elif not _EVENTS.isdisjoint(said):
            self._take_nova(said)
        else:
            self._completions.take(said, streamed=streamed)

    def _note(self, said: Fields) -> None:
        self._beside.update((name, it) for name, it in said.items() if name.startswith(PREFIX))
        if METRICS in said:
            self._end = "invocation metrics"

    def _take_nova(self, said: Fields) -> None:
        for name in _EVENTS.intersection(said):
            self._nova.take(name, lenient_json.fields(said.get(name)))
        if self._nova.stop_reason:
            self._end = f"messageStop: {self._nova.stop_reason}"

    def _take_anthropic(self, said: Fields) -> None:
        self._anthropic.take(said)
        match kind(said):
            case "error":
                self.failure = self.failure or failure(said)
            case "message_stop":
                self._end = "message_stop"
            case "message_delta" | "completion" if reason := stop_reason(said):
                self._end = f"stop_reason: {reason}"
            case _:
                pass

    def turns(self) -> tuple[Turn, ...]:
        """What was said."""
        turns = [
            *self._anthropic.turns(),
            *(it.turn() for it in (self._converse, self._nova) if not it.is_empty),
            *self._completions.turns(),
        ]
        return tuple(map(self._complete, turns))

    def _complete(self, turn: Turn) -> Turn:
        """The turn with what Bedrock itself says; the model's own counts come first."""
        beside = dict(lenient_json.metadata(self._beside, self._beside))
        own = (it for it in turn.metadata if it[0] not in beside)
        counted = usage.of_metrics(lenient_json.fields(self._beside.get(METRICS)))
        return replace(turn, usage=turn.usage or counted, metadata=(*own, *beside.items()))


def says(said: Fields) -> int:
    """How many characters one event of a model's own adds to what was said."""
    said = _typed(said)
    if kind(said) in _ANTHROPIC:
        return message_decoder.says(said)
    if DELTA in said:
        return converse_decoder.says(DELTA, lenient_json.fields(said.get(DELTA)))
    return completion_decoder.says(said)


def _typed(said: Fields) -> Fields:
    """A completion of Anthropic's, which old models wrote without a type, has one."""
    is_bare = isinstance(said.get("completion"), str) and "type" not in said
    return {**said, "type": "completion"} if is_bare else said
