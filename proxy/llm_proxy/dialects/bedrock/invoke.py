"""InvokeModel responses: the makers' own formats, with fields that the service adds.

InvokeModel returns the maker's document, and streams its events, each in a frame `chunk`.  When
decoding, the format is detected from the documents: with an inference profile, the path does not
name the maker.  To the last event of every model's stream the service adds its metrics; for a
document it sends the counts in headers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from llm_proxy.dialects import response_encoding
from llm_proxy.dialects.anthropic import messages
from llm_proxy.dialects.anthropic.messages import MESSAGE_KINDS, MessagesResponseDecoder
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.bedrock import completions, converse, errors, frames, usage
from llm_proxy.dialects.bedrock.completions import CompletionsDecoder
from llm_proxy.dialects.bedrock.converse import DELTA_EVENT, EVENT_NAMES, ConverseDecoder
from llm_proxy.dialects.bedrock.model_formats import ModelFormat
from llm_proxy.dialects.bedrock.usage import METRICS_FIELD
from llm_proxy.dialects.encoding import EncodeContext
from llm_proxy.dialects.lenient_json import (
    Fields,
    get_object,
    object_fields,
    parse_object,
    select_metadata,
    selected_fields,
)
from llm_proxy.dialects.wire import WireFormat
from llm_proxy.framing.eventstream import Frame, parse_frame
from llm_proxy.turns import Failure, Json, Part, Turn

_SERVICE_FIELD_PREFIX: Final = "amazon-bedrock-"
"""The prefix of the fields that the service adds to a model's own."""

_GUARDRAIL_METADATA: Final = (
    f"{_SERVICE_FIELD_PREFIX}guardrailAction",
    f"{_SERVICE_FIELD_PREFIX}trace",
)
_SERVICE_METADATA: Final = (METRICS_FIELD, *_GUARDRAIL_METADATA)
"""The metadata that the service itself adds, in encoding order."""

_CONVERSE_EVENT_NAMES: Final = frozenset(EVENT_NAMES)
_ANTHROPIC_KINDS: Final = MESSAGE_KINDS | {"message_stop", "ping"}


class BedrockResponseDecoder:
    """Decodes the frames or the document of a response to turns, and detects its end."""

    def __init__(self, codec_name: str = frames.CODEC) -> None:
        self._splitter = frames.splitter() if codec_name == frames.CODEC else None
        self._anthropic = MessagesResponseDecoder()
        self._converse = ConverseDecoder()
        self._nova = ConverseDecoder(joins_text=True)
        self._completions = CompletionsDecoder()
        self._service_fields: dict[str, Json] = {}
        self._ending_reason = ""
        self.exception: Failure | None = None
        """The service's error that ends a stream."""
        self.failure: Failure | None = None
        """The model's own error inside its stream."""

    @property
    def ending_reason(self) -> str:
        """What ended the message (only counts can follow); empty before that."""
        return self._ending_reason or (
            "every choice finished" if self._completions.all_finished else ""
        )

    def feed(self, message: bytes) -> list[Part]:
        """Decode a message of the body, or a whole document; return its pieces."""
        if self._splitter is None:
            return self._feed_model_payload(parse_object(message), streamed=False)
        received_frames = filter(None, map(parse_frame, self._splitter.feed(message)))
        return [piece for frame in received_frames for piece in self.feed_frame(frame)]

    def feed_frame(self, frame: Frame) -> list[Part]:
        """Decode one frame: an exception, an event of ConverseStream, or one of the model's own.

        Returns the pieces that it adds.
        """
        self.exception = self.exception or frames.decode_exception(frame)
        event, fields = frame.header(frames.EVENT_TYPE), parse_object(frame.payload)
        if event == frames.CHUNK_EVENT:
            return self._feed_model_payload(frames.unwrap_chunk(fields), streamed=True)
        return self._feed_event(self._converse, event, fields)

    def _feed_model_payload(self, fields: Fields, *, streamed: bool) -> list[Part]:
        """Decode one document or one event of a model's own format; unknown ones are ignored."""
        self._service_fields.update(
            (name, value)
            for name, value in fields.items()
            if name.startswith(_SERVICE_FIELD_PREFIX)
        )
        if METRICS_FIELD in fields:
            self._ending_reason = "invocation metrics"
        fields = _with_completion_type(fields)
        kind = messages.response_payload_kind(fields)
        if kind in _ANTHROPIC_KINDS:
            pieces = self._anthropic.feed(fields)
            reason = messages.stop_reason(fields)
            if kind == "error":
                self.failure = self.failure or messages.decode_failure(fields)
            elif kind == "message_stop":
                self._ending_reason = kind
            elif reason and kind in ("message_delta", "completion"):
                self._ending_reason = f"stop_reason: {reason}"
            return pieces
        if isinstance(fields.get("output"), dict):
            return self._converse.feed_whole_response(fields)
        if names := _CONVERSE_EVENT_NAMES.intersection(fields):
            return [
                piece
                for name in names
                for piece in self._feed_event(self._nova, name, get_object(fields, name))
            ]
        return self._completions.feed(fields, streamed=streamed)

    def _feed_event(self, decoder: ConverseDecoder, event: str, fields: Fields) -> list[Part]:
        pieces = decoder.feed(event, fields)
        if decoder.stop_reason:
            self._ending_reason = f"messageStop: {decoder.stop_reason}"
        return pieces

    def turns(self) -> tuple[Turn, ...]:
        """The turns so far, with the service's fields; the model's own usage takes precedence."""
        metadata = select_metadata(self._service_fields, self._service_fields)
        names = {name for name, _ in metadata}
        metrics = get_object(self._service_fields, METRICS_FIELD)
        turns = [
            *self._anthropic.turns(),
            *(item.turn() for item in (self._converse, self._nova) if not item.is_empty),
            *self._completions.turns(),
        ]
        if self.exception and not turns:
            turns = [Turn(())]
        return tuple(
            replace(
                turn,
                usage=turn.usage or usage.decode(usage.METRICS, metrics),
                failure=turn.failure or self.exception,
                metadata=(*(pair for pair in turn.metadata if pair[0] not in names), *metadata),
            )
            for turn in turns
        )


def model_event_output_chars(fields: Fields) -> int:
    """How many output characters one event of a model's own format adds."""
    fields = _with_completion_type(fields)
    if messages.response_payload_kind(fields) in _ANTHROPIC_KINDS:
        return messages.event_output_chars(fields)
    if DELTA_EVENT in fields:
        return converse.event_output_chars(DELTA_EVENT, get_object(fields, DELTA_EVENT))
    return completions.event_output_chars(fields)


def _with_completion_type(fields: Fields) -> Fields:
    """Adds the type that old Anthropic models omit in completions."""
    lacks_type = isinstance(fields.get("completion"), str) and "type" not in fields
    return {**fields, "type": "completion"} if lacks_type else fields


def wire_format(model_format: ModelFormat, *, stream: bool) -> WireFormat:
    """What a response in this format can hold, with the fields of the service.

    The service counts the tokens where the format does not.
    """
    model_wire_format = model_format.streamed if stream else model_format.whole
    counts_tokens = model_wire_format.usage.is_required
    return replace(
        model_wire_format,
        usage=model_wire_format.usage if counts_tokens else usage.METRICS,
        metadata=(
            *model_wire_format.metadata,
            *(_SERVICE_METADATA if stream else _GUARDRAIL_METADATA),
        ),
    )


def encode_response(
    model_format: ModelFormat, turn: Turn, context: EncodeContext, *, streams: bool
) -> DialectResponse:
    """The response of a prepared turn."""
    metadata = selected_fields(turn.metadata, _SERVICE_METADATA)
    headers = errors.common_response_headers(context)
    if not streams:
        document = {**model_format.encode_whole(turn, context), **metadata}
        headers = (*headers, *usage.encode_headers(turn.usage))
        return response_encoding.json_response(document, headers)
    events = [*model_format.encode_events(turn, context)]
    if turn.failure is None:
        metrics = object_fields(metadata.pop(METRICS_FIELD, None))
        if not metrics or not model_format.streamed.usage.is_required:
            metrics = usage.encode_metrics(turn.usage, metrics)
        events[-1] = {**events[-1], METRICS_FIELD: dict(metrics), **metadata}
    return frames.stream_response(
        map(frames.encode_chunk_frame, events),
        turn.failure and errors.with_stream_error_type(turn.failure, errors.INVOKE_EXCEPTIONS),
        (*headers, ("X-Amzn-Bedrock-Content-Type", "application/json")),
    )
