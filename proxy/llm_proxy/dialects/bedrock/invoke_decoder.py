"""Decodes Bedrock responses in the makers' own formats and in Converse's.

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
from llm_proxy.dialects.anthropic.message_decoder import (
    MessagesDecoder,
    decode_failure,
    document_kind,
    stop_reason,
)
from llm_proxy.dialects.bedrock import completion_decoder, converse_decoder, usage
from llm_proxy.dialects.bedrock.completion_decoder import CompletionsDecoder
from llm_proxy.dialects.bedrock.converse_decoder import DELTA, EVENTS, ConverseDecoder
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


class BedrockStreamDecoder:
    """The turns of a response, and whether it has ended, as its documents and events come."""

    def __init__(self) -> None:
        self._anthropic = MessagesDecoder()
        self._converse = ConverseDecoder()
        self._nova = ConverseDecoder(joins_text=True)
        self._completions = CompletionsDecoder()
        self._beside: dict[str, Json] = {}
        self._end = ""
        self.failure: Failure | None = None
        """The model's own error inside its stream."""

    @property
    def ending_reason(self) -> str:
        """What said that nothing more would come but counts; empty before that."""
        return self._end or ("every choice finished" if self._completions.all_finished else "")

    def feed_converse_event(self, event: str, fields: Fields) -> None:
        """Read one event of ConverseStream."""
        self._converse.feed(event, fields)
        if self._converse.stop_reason:
            self._end = f"messageStop: {self._converse.stop_reason}"

    def feed_model_document(self, fields: Fields, *, streamed: bool) -> None:
        """Read one document, or one event of a model's own; other shapes are left out."""
        self._record_service_metrics(fields)
        fields = _with_completion_type(fields)
        if document_kind(fields) in _ANTHROPIC:
            self._feed_anthropic(fields)
        elif isinstance(fields.get("output"), dict):
            self._converse.feed_document(fields)
        elif not _EVENTS.isdisjoint(fields):
            self._feed_nova(fields)
        else:
            self._completions.feed(fields, streamed=streamed)

    def _record_service_metrics(self, fields: Fields) -> None:
        self._beside.update(
            (name, value) for name, value in fields.items() if name.startswith(PREFIX)
        )
        if METRICS in fields:
            self._end = "invocation metrics"

    def _feed_nova(self, fields: Fields) -> None:
        for name in _EVENTS.intersection(fields):
            self._nova.feed(name, lenient_json.object_fields(fields.get(name)))
        if self._nova.stop_reason:
            self._end = f"messageStop: {self._nova.stop_reason}"

    def _feed_anthropic(self, fields: Fields) -> None:
        self._anthropic.feed(fields)
        match document_kind(fields):
            case "error":
                self.failure = self.failure or decode_failure(fields)
            case "message_stop":
                self._end = "message_stop"
            case "message_delta" | "completion" if reason := stop_reason(fields):
                self._end = f"stop_reason: {reason}"
            case _:
                pass

    def result(self) -> tuple[Turn, ...]:
        """What was said."""
        turns = [
            *self._anthropic.result(),
            *(item.result() for item in (self._converse, self._nova) if not item.is_empty),
            *self._completions.result(),
        ]
        return tuple(map(self._with_service_fields, turns))

    def _with_service_fields(self, turn: Turn) -> Turn:
        """The turn with what Bedrock itself says; the model's own counts come first."""
        fields = dict(lenient_json.named_metadata(self._beside, self._beside))
        own = (values for values in turn.metadata if values[0] not in fields)
        counted = usage.decode_service_metrics(
            lenient_json.object_fields(self._beside.get(METRICS))
        )
        return replace(turn, usage=turn.usage or counted, metadata=(*own, *fields.items()))


def model_event_output_chars(fields: Fields) -> int:
    """How many characters one event of a model's own adds to what was said."""
    fields = _with_completion_type(fields)
    if document_kind(fields) in _ANTHROPIC:
        return message_decoder.event_output_chars(fields)
    if DELTA in fields:
        return converse_decoder.event_output_chars(
            DELTA, lenient_json.object_fields(fields.get(DELTA))
        )
    return completion_decoder.event_output_chars(fields)


def _with_completion_type(fields: Fields) -> Fields:
    """A completion of Anthropic's, which old models wrote without a type, has one."""
    is_bare = isinstance(fields.get("completion"), str) and "type" not in fields
    return {**fields, "type": "completion"} if is_bare else fields
