"""Encodes messages as a stream of events or one document.

The transport is left to the caller: SSE events, or the frames of Bedrock.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.anthropic import block_encoder, usage
from llm_proxy.dialects.anthropic.block_encoder import TextSplitter
from llm_proxy.dialects.anthropic.message_capabilities import (
    END_METADATA,
    START_METADATA,
    STOP_METADATA,
    content_blocks,
)
from llm_proxy.dialects.anthropic.message_decoder import REFUSAL, STOP_DETAILS, USAGE
from llm_proxy.dialects.capabilities import nonempty_metadata
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.turns import Part, Refusal, Turn, Usage


def encode_events(turn: Turn, split_text: TextSplitter) -> Iterator[tuple[str, Document]]:
    """The events of a converted turn, each after its type.

    A failed turn has no end: the caller adds the error in the format of the transport.
    """
    for event in _event_payloads(turn, split_text):
        yield event["type"], event


def encode_whole_response(turn: Turn) -> Document:
    """The whole message of a converted turn."""
    return {
        **_encode_message_base(turn),
        "content": [
            block_encoder.encode_block(content_block) for content_block in content_blocks(turn)
        ],
        **_encode_stop_fields(turn),
        **_extra_message_fields(turn, *END_METADATA),
        USAGE: usage.encode_usage(turn.usage or Usage(), _extra_usage_fields(turn)),
    }


def _event_payloads(turn: Turn, split_text: TextSplitter) -> Iterator[Document]:
    yield {"type": "message_start", "message": _encode_message_start(turn)}
    for index, block in enumerate(content_blocks(turn)):
        yield from _encode_block_events(index, block, split_text)
    if turn.failure is None:
        final_usage = {
            name: value
            for name, value in _extra_usage_fields(turn).items()
            if name in usage.FINAL_USAGE_FIELDS
        }
        yield {
            "type": "message_delta",
            "delta": _encode_stop_fields(turn),
            USAGE: usage.encode_usage(turn.usage or Usage(), final_usage),
            **_extra_message_fields(turn, *END_METADATA),
        }
        yield {"type": "message_stop"}


def _encode_block_events(
    index: int, block: Part | Fields, split_text: TextSplitter
) -> Iterator[Document]:
    start = block_encoder.encode_block_start(block)
    yield {"type": "content_block_start", "index": index, "content_block": start}
    for delta in block_encoder.encode_deltas(block, split_text):
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


def _encode_message_start(turn: Turn) -> Document:
    initial_fields = {
        name: value
        for name, value in _extra_usage_fields(turn).items()
        if name not in usage.FINAL_USAGE_FIELDS
    }
    return {
        **_encode_message_base(turn),
        "stop_reason": None,
        "stop_sequence": None,
        USAGE: usage.encode_usage(usage.initial_usage(turn.usage or Usage()), initial_fields),
    }


def _encode_message_base(turn: Turn) -> Document:
    return {
        "id": turn.id,
        "type": "message",
        "role": "assistant",
        "model": turn.model,
        "content": [],
        **_extra_message_fields(turn, *START_METADATA),
    }


def _encode_stop_fields(turn: Turn) -> Document:
    refusal = next((part for part in turn.parts if isinstance(part, Refusal)), None)
    fields: Document = {"stop_reason": turn.finish_raw, "stop_sequence": None}
    if refusal is not None:
        details = {"category": None, **dict(refusal.metadata), "explanation": refusal.text}
        fields[STOP_DETAILS] = {"type": REFUSAL, **details}
    return {**fields, **_extra_message_fields(turn, *STOP_METADATA)}


def _extra_message_fields(turn: Turn, *names: str) -> Document:
    return dict(nonempty_metadata(turn.metadata, names))


def _extra_usage_fields(turn: Turn) -> Fields:
    """The usage fields that `Usage` does not have."""
    return lenient_json.object_fields(dict(turn.metadata).get(USAGE))
