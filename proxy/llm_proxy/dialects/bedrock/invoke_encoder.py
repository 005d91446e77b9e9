"""Encodes InvokeModel responses: the maker's format plus the service's metrics.

The service adds its metrics to the last event of every model's stream; for a document it sends the
counts in headers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from llm_proxy.dialects import lenient_json, response_encoding
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.bedrock import errors, frames, usage
from llm_proxy.dialects.bedrock.claude_format import AnyClaudeFormat
from llm_proxy.dialects.bedrock.invoke_decoder import SERVICE_FIELD_PREFIX
from llm_proxy.dialects.bedrock.model_format import ModelFormat
from llm_proxy.dialects.bedrock.usage import METRICS_FIELD
from llm_proxy.dialects.capabilities import Capabilities, nonempty_metadata, without_usage
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.wire import UsageFields, WireFormat
from llm_proxy.framing import eventstream
from llm_proxy.turns import Json, Metadata, Turn

_GUARDRAIL_METADATA: Final = (
    f"{SERVICE_FIELD_PREFIX}guardrailAction",
    f"{SERVICE_FIELD_PREFIX}trace",
)
_SERVICE_METADATA: Final = (METRICS_FIELD, *_GUARDRAIL_METADATA)
"""The metadata that the service itself adds, in encoding order."""


def model_format_capabilities(
    model_format: ModelFormat, *, streams: bool, context: EncodeContext
) -> Capabilities:
    """The capabilities of this format, extended by the fields of the service."""
    capabilities = model_format.capabilities(streams=streams, context=context)
    model_counts_tokens = capabilities.always_has_usage
    if not model_counts_tokens:
        required_fields = ("input", "output")
        capabilities = replace(
            capabilities,
            usage_fields=usage.SERVICE_USAGE_FIELDS,
            required_usage_fields=required_fields,
            always_has_usage=True,
        )
    if not streams:
        arrange_turn = partial(_normalize_whole_turn, words=capabilities)
        metadata_names = (*capabilities.metadata_names, *_GUARDRAIL_METADATA)
        return replace(
            capabilities,
            normalize_turn=arrange_turn,
            metadata_names=metadata_names,
            convert_failure=errors.with_known_error_type,
        )
    return replace(
        capabilities,
        normalize_turn=partial(
            _normalize_streamed_turn, words=capabilities, counts=model_counts_tokens
        ),
        metadata_names=(*capabilities.metadata_names, *_SERVICE_METADATA),
        convert_failure=partial(errors.with_stream_error_type, known=errors.INVOKE_EXCEPTIONS),
    )


_SERVICE_USAGE: Final = UsageFields(
    {name: (name,) for name in usage.SERVICE_USAGE_FIELDS},
    required=("input", "output"),
    is_required=True,
)
"""What the service counts; `usage` encodes it."""


def model_wire_format(model_format: AnyClaudeFormat, *, streams: bool) -> WireFormat:
    """What a response in this format can hold, extended by the fields of the service."""
    wire_format = model_format.wire_format(stream=streams)
    service_metadata = _SERVICE_METADATA if streams else _GUARDRAIL_METADATA
    return replace(
        wire_format,
        usage=wire_format.usage if wire_format.usage.is_required else _SERVICE_USAGE,
        metadata=(*wire_format.metadata, *service_metadata),
    )


def with_service_fields(turn: Turn, model_format: AnyClaudeFormat) -> Turn:
    """The prepared turn of a stream with the service's metrics, and with its type of error."""
    metadata: dict[str, Json] = dict(turn.metadata)
    metrics = lenient_json.object_fields(metadata.get(METRICS_FIELD))
    counts_tokens = model_format.wire_format(stream=True).usage.is_required
    metadata[METRICS_FIELD] = (
        dict(metrics)
        if metrics and counts_tokens
        else usage.encode_service_metrics(turn.usage, metrics)
    )
    failure = turn.failure and errors.with_stream_error_type(turn.failure, errors.INVOKE_EXCEPTIONS)
    return replace(turn, failure=failure, metadata=tuple(metadata.items()))


def encode_model_response(
    model_format: ModelFormat | AnyClaudeFormat,
    turn: Turn,
    context: EncodeContext,
    *,
    streams: bool,
) -> DialectResponse:
    """The response of a converted turn."""
    if streams:
        headers = (
            *errors.common_response_headers(context),
            ("X-Amzn-Bedrock-Content-Type", "application/json"),
        )
        messages = _encode_frames(model_format, turn, context)
        return response_encoding.stream_response(
            frames.CODEC, eventstream.CONTENT_TYPE, messages, headers
        )
    fields = {
        **model_format.encode_whole_response(turn, context),
        **dict(nonempty_metadata(turn.metadata, _GUARDRAIL_METADATA)),
    }
    return response_encoding.json_response(
        fields, (*errors.common_response_headers(context), *usage.encode_usage_headers(turn.usage))
    )


def _encode_frames(
    model_format: ModelFormat | AnyClaudeFormat, turn: Turn, context: EncodeContext
) -> Iterator[bytes]:
    events = model_format.encode_events(turn, context)
    if turn.failure is not None:
        yield from map(frames.encode_chunk_frame, events)
        yield frames.encode_exception_frame(turn.failure)
        return
    *earlier_events, last_event = events
    yield from map(frames.encode_chunk_frame, earlier_events)
    yield frames.encode_chunk_frame(
        {**last_event, **dict(nonempty_metadata(turn.metadata, _SERVICE_METADATA))}
    )


def _normalize_whole_turn(turn: Turn, words: Capabilities) -> Turn:
    arranged = words.normalize_turn(_without_service_fields(turn))
    return replace(
        arranged,
        metadata=(*arranged.metadata, *nonempty_metadata(turn.metadata, _GUARDRAIL_METADATA)),
    )


def _normalize_streamed_turn(turn: Turn, words: Capabilities, *, counts: bool) -> Turn:
    """The turn with the service's metrics; `counts`: whether the format has usage itself."""
    arranged = words.normalize_turn(_without_service_fields(turn))
    if arranged.failure is not None:
        return arranged if counts else without_usage(arranged)
    fields: dict[str, Json] = dict(turn.metadata)
    metrics = lenient_json.object_fields(fields.get(METRICS_FIELD))
    fields[METRICS_FIELD] = (
        dict(metrics)
        if metrics and counts
        else usage.encode_service_metrics(arranged.usage, metrics)
    )
    metadata = nonempty_metadata(tuple(fields.items()), _SERVICE_METADATA)
    return replace(arranged, metadata=(*arranged.metadata, *metadata))


def _without_service_fields(turn: Turn) -> Turn:
    model_metadata: Metadata = tuple(
        pair for pair in turn.metadata if pair[0] not in _SERVICE_METADATA
    )
    return replace(turn, metadata=model_metadata)
