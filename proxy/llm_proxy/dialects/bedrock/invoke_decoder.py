"""Decodes Bedrock responses in the makers' own formats and in Converse's.

InvokeModel returns the maker's document, and streams its events, each in a frame `chunk`.  The
format is detected from the documents: with an inference profile, the path does not name the maker.
Bedrock adds fields of its own, of which `amazon-bedrock-invocationMetrics` comes with the last
event of every model's stream.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.anthropic import messages
from llm_proxy.dialects.anthropic.messages import (
    MessagesResponseDecoder,
    decode_failure,
    response_payload_kind,
    stop_reason,
)
from llm_proxy.dialects.bedrock import completion_decoder, converse_decoder, usage
from llm_proxy.dialects.bedrock.completion_decoder import CompletionsDecoder
from llm_proxy.dialects.bedrock.converse_decoder import DELTA_EVENT, EVENT_NAMES, ConverseDecoder
from llm_proxy.dialects.bedrock.usage import METRICS_FIELD
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.turns import Failure, Json, Turn

SERVICE_FIELD_PREFIX: Final = "amazon-bedrock-"
"""The prefix of the fields that the service adds to a model's own."""

_CONVERSE_EVENT_NAMES: Final = frozenset(EVENT_NAMES)

_ANTHROPIC_KINDS: Final = frozenset(
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


class BedrockResponseDecoder:
    """Decodes the documents and events of a response to turns, and detects its end."""

    def __init__(self) -> None:
        self._anthropic = MessagesResponseDecoder()
        self._converse = ConverseDecoder()
        self._nova = ConverseDecoder(joins_text=True)
        self._completions = CompletionsDecoder()
        self._service_fields: dict[str, Json] = {}
        self._ending_reason = ""
        self.failure: Failure | None = None
        """The model's own error inside its stream."""

    @property
    def ending_reason(self) -> str:
        """What ended the message (only counts can follow); empty before that."""
        return self._ending_reason or (
            "every choice finished" if self._completions.all_finished else ""
        )

    def feed_converse_event(self, event: str, fields: Fields) -> None:
        """Decode one event of ConverseStream."""
        self._converse.feed(event, fields)
        if self._converse.stop_reason:
            self._ending_reason = f"messageStop: {self._converse.stop_reason}"

    def feed_model_payload(self, fields: Fields, *, streamed: bool) -> None:
        """Decode one document or one event of a model's own format; unknown ones are ignored."""
        self._record_service_metrics(fields)
        fields = _with_completion_type(fields)
        if response_payload_kind(fields) in _ANTHROPIC_KINDS:
            self._feed_anthropic(fields)
        elif isinstance(fields.get("output"), dict):
            self._converse.feed_whole_response(fields)
        elif not _CONVERSE_EVENT_NAMES.isdisjoint(fields):
            self._feed_nova(fields)
        else:
            self._completions.feed(fields, streamed=streamed)

    def _record_service_metrics(self, fields: Fields) -> None:
        self._service_fields.update(
            (name, value) for name, value in fields.items() if name.startswith(SERVICE_FIELD_PREFIX)
        )
        if METRICS_FIELD in fields:
            self._ending_reason = "invocation metrics"

    def _feed_nova(self, fields: Fields) -> None:
        for name in _CONVERSE_EVENT_NAMES.intersection(fields):
            self._nova.feed(name, lenient_json.object_fields(fields.get(name)))
        if self._nova.stop_reason:
            self._ending_reason = f"messageStop: {self._nova.stop_reason}"

    def _feed_anthropic(self, fields: Fields) -> None:
        self._anthropic.feed(fields)
        match response_payload_kind(fields):
            case "error":
                self.failure = self.failure or decode_failure(fields)
            case "message_stop":
                self._ending_reason = "message_stop"
            case "message_delta" | "completion" if reason := stop_reason(fields):
                self._ending_reason = f"stop_reason: {reason}"
            case _:
                pass

    def turns(self) -> tuple[Turn, ...]:
        """The turns so far."""
        turns = [
            *self._anthropic.turns(),
            *(item.turn() for item in (self._converse, self._nova) if not item.is_empty),
            *self._completions.turns(),
        ]
        return tuple(map(self._with_service_fields, turns))

    def _with_service_fields(self, turn: Turn) -> Turn:
        """The turn with Bedrock's own fields; the model's own usage takes precedence."""
        fields = dict(lenient_json.select_metadata(self._service_fields, self._service_fields))
        model_metadata = (values for values in turn.metadata if values[0] not in fields)
        service_usage = usage.decode_service_metrics(
            lenient_json.object_fields(self._service_fields.get(METRICS_FIELD))
        )
        return replace(
            turn, usage=turn.usage or service_usage, metadata=(*model_metadata, *fields.items())
        )


def model_event_output_chars(fields: Fields) -> int:
    """How many output characters one event of a model's own format adds."""
    fields = _with_completion_type(fields)
    if response_payload_kind(fields) in _ANTHROPIC_KINDS:
        return messages.event_output_chars(fields)
    if DELTA_EVENT in fields:
        return converse_decoder.event_output_chars(
            DELTA_EVENT, lenient_json.object_fields(fields.get(DELTA_EVENT))
        )
    return completion_decoder.event_output_chars(fields)


def _with_completion_type(fields: Fields) -> Fields:
    """Adds the type that old Anthropic models omit in completions."""
    lacks_type = isinstance(fields.get("completion"), str) and "type" not in fields
    return {**fields, "type": "completion"} if lacks_type else fields
