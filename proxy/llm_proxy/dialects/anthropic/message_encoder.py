"""Encodes messages as a stream of events or one document.

Nothing here knows what carries them: events of SSE, or the frames of Bedrock.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.anthropic import block_encoder, usage
from llm_proxy.dialects.anthropic.block_encoder import Cut
from llm_proxy.dialects.anthropic.message_capabilities import (
    OF_DELTA,
    OF_END,
    OF_START,
    content_blocks,
)
from llm_proxy.dialects.anthropic.message_decoder import DETAILS, REFUSAL, USAGE
from llm_proxy.dialects.capabilities import nonempty_metadata
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.turns import Part, Refusal, Turn, Usage


def encode_events(turn: Turn, cut: Cut) -> Iterator[tuple[str, Document]]:
    """The events of a turn that fits, each with its type.

    Of one that failed there is no end: the error is told as the carrier tells errors.
    """
    for event in _encode_events(turn, cut):
        yield event["type"], event


def encode_document(turn: Turn) -> Document:
    """The whole message of a turn that fits."""
    return {
        **_encode_message(turn),
        "content": [
            block_encoder.encode_block(content_block) for content_block in content_blocks(turn)
        ],
        **_encode_stop_fields(turn),
        **_extra_message_fields(turn, *OF_END),
        USAGE: usage.encode_usage(turn.usage or Usage(), _extra_usage_fields(turn)),
    }


def _encode_events(turn: Turn, cut: Cut) -> Iterator[Document]:
    yield {"type": "message_start", "message": _encode_message_start(turn)}
    for index, block in enumerate(content_blocks(turn)):
        yield from _encode_block_events(index, block, cut)
    if turn.failure is None:
        late = {
            name: value for name, value in _extra_usage_fields(turn).items() if name in usage.AT_END
        }
        yield {
            "type": "message_delta",
            "delta": _encode_stop_fields(turn),
            USAGE: usage.encode_usage(turn.usage or Usage(), late),
            **_extra_message_fields(turn, *OF_END),
        }
        yield {"type": "message_stop"}


def _encode_block_events(index: int, block: Part | Fields, cut: Cut) -> Iterator[Document]:
    begun = block_encoder.encode_block_start(block)
    yield {"type": "content_block_start", "index": index, "content_block": begun}
    for delta in block_encoder.encode_deltas(block, cut):
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


def _encode_message_start(turn: Turn) -> Document:
    early = {
        name: value for name, value in _extra_usage_fields(turn).items() if name not in usage.AT_END
    }
    return {
        **_encode_message(turn),
        "stop_reason": None,
        "stop_sequence": None,
        USAGE: usage.encode_usage(usage.encode_initial_usage(turn.usage or Usage()), early),
    }


def _encode_message(turn: Turn) -> Document:
    return {
        "id": turn.id,
        "type": "message",
        "role": "assistant",
        "model": turn.model,
        "content": [],
        **_extra_message_fields(turn, *OF_START),
    }


def _encode_stop_fields(turn: Turn) -> Document:
    declined = next((part for part in turn.parts if isinstance(part, Refusal)), None)
    ended: Document = {"stop_reason": turn.finish_raw, "stop_sequence": None}
    if declined is not None:
        details = {"category": None, **dict(declined.metadata), "explanation": declined.text}
        ended[DETAILS] = {"type": REFUSAL, **details}
    return {**ended, **_extra_message_fields(turn, *OF_DELTA)}


def _extra_message_fields(turn: Turn, *names: str) -> Document:
    return dict(nonempty_metadata(turn.metadata, names))


def _extra_usage_fields(turn: Turn) -> Fields:
    """What is told of the cost that `Usage` has no word for."""
    return lenient_json.object_fields(dict(turn.metadata).get(USAGE))
