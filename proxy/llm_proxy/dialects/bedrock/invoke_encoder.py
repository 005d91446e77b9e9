"""Encodes InvokeModel responses: the maker's format plus the service's metrics.

The service adds its metrics to the last event of a stream, whoever made the model; of a document
it tells the counts in headers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from llm_proxy.dialects import lenient_json, response_encoding
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.bedrock import errors, frames, usage
from llm_proxy.dialects.bedrock.invoke_decoder import PREFIX
from llm_proxy.dialects.bedrock.model_format import ModelFormat
from llm_proxy.dialects.bedrock.usage import METRICS
from llm_proxy.dialects.capabilities import Capabilities, nonempty_metadata, without_usage
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.framing import eventstream
from llm_proxy.turns import Json, Metadata, Turn

_OF_GUARDRAIL: Final = (f"{PREFIX}guardrailAction", f"{PREFIX}trace")
_BESIDE: Final = (METRICS, *_OF_GUARDRAIL)
"""The metadata of an answer that the service itself adds, in the order in which it is told."""


def model_capabilities(
    maker: ModelFormat, *, streams: bool, context: EncodeContext
) -> Capabilities:
    """The words of this maker's models, and the service's."""
    words = maker.capabilities(streams=streams, context=context)
    counts = words.always_has_usage
    if not counts:
        always = ("input", "output")
        words = replace(
            words,
            usage_fields=usage.OF_SERVICE,
            required_usage_fields=always,
            always_has_usage=True,
        )
    if not streams:
        arranged = partial(_arrange_document_turn, words=words)
        keeps = (*words.metadata_names, *_OF_GUARDRAIL)
        return replace(
            words, arrange=arranged, metadata_names=keeps, convert_failure=errors.with_known_type
        )
    return replace(
        words,
        arrange=partial(_arrange_stream_turn, words=words, counts=counts),
        metadata_names=(*words.metadata_names, *_BESIDE),
        convert_failure=partial(errors.stream_error_of, known=errors.IN_INVOKE),
    )


def encode_model_response(
    maker: ModelFormat, turn: Turn, context: EncodeContext, *, streams: bool
) -> DialectResponse:
    """The answer that tells a turn that fits."""
    if streams:
        headers = (
            *errors.response_headers(context),
            ("X-Amzn-Bedrock-Content-Type", "application/json"),
        )
        messages = _encode_frames(maker, turn, context)
        return response_encoding.stream_response(
            frames.CODEC, eventstream.CONTENT_TYPE, messages, headers
        )
    fields = {
        **maker.encode_document(turn, context),
        **dict(nonempty_metadata(turn.metadata, _OF_GUARDRAIL)),
    }
    return response_encoding.json_response(
        fields, (*errors.response_headers(context), *usage.encode_usage_headers(turn.usage))
    )


def _encode_frames(maker: ModelFormat, turn: Turn, context: EncodeContext) -> Iterator[bytes]:
    events = maker.encode_events(turn, context)
    if turn.failure is not None:
        yield from map(frames.encode_chunk_frame, events)
        yield frames.encode_exception_frame(turn.failure)
        return
    *begun, last = events
    yield from map(frames.encode_chunk_frame, begun)
    yield frames.encode_chunk_frame({**last, **dict(nonempty_metadata(turn.metadata, _BESIDE))})


def _arrange_document_turn(turn: Turn, words: Capabilities) -> Turn:
    own = words.arrange(_without_service_fields(turn))
    return replace(own, metadata=(*own.metadata, *nonempty_metadata(turn.metadata, _OF_GUARDRAIL)))


def _arrange_stream_turn(turn: Turn, words: Capabilities, *, counts: bool) -> Turn:
    """The turn with the service's metrics; `counts` where the model counts tokens itself."""
    own = words.arrange(_without_service_fields(turn))
    if own.failure is not None:
        return own if counts else without_usage(own)
    fields: dict[str, Json] = dict(turn.metadata)
    document = lenient_json.object_fields(fields.get(METRICS))
    fields[METRICS] = (
        dict(document) if document and counts else usage.encode_service_metrics(own.usage, document)
    )
    metadata = nonempty_metadata(tuple(fields.items()), _BESIDE)
    return replace(own, metadata=(*own.metadata, *metadata))


def _without_service_fields(turn: Turn) -> Turn:
    own: Metadata = tuple(pair for pair in turn.metadata if pair[0] not in _BESIDE)
    return replace(turn, metadata=own)
