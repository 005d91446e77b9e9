"""Encodes Anthropic's legacy text completions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from llm_proxy.dialects.anthropic import errors, message_decoder
from llm_proxy.dialects.anthropic.block_encoder import TextSplitter
from llm_proxy.dialects.anthropic.errors import REQUEST_ID
from llm_proxy.dialects.capabilities import Capabilities, nonempty_metadata
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.turns import FinishReason, Turn

COMPLETION: Final = "completion"
"""The type of events and documents, and the field of their text."""

_STOP_FIELD: Final = "stop"
"""Metadata: the stop sequence that ended the completion."""

_STOP_REASONS: Final = {
    FinishReason.STOP: "stop_sequence",
    FinishReason.STOP_SEQUENCE: "stop_sequence",
    FinishReason.LENGTH: "max_tokens",
}


def capabilities(*, streams: bool, context: EncodeContext) -> Capabilities:
    """The capabilities of a legacy completion, streamed or whole."""
    return Capabilities(
        dialect="anthropic's completions",
        is_streamed=streams,
        finish_by_raw_reason=message_decoder.FINISH_BY_STOP_REASON,
        raw_reason_by_finish=_STOP_REASONS,
        id_prefix="compl_",
        usage_fields=(),
        metadata_names=(_STOP_FIELD, REQUEST_ID),
        normalize_turn=_without_request_id_unless_failed,
        convert_failure=errors.with_type_defaults,
        convert_failed_turn=partial(errors.with_only_request_id_metadata, context=context),
        convert_http_error_turn=partial(errors.with_only_request_id_metadata, context=context),
    )


def encode_events(turn: Turn, split_text: TextSplitter) -> Iterator[tuple[str, Document]]:
    """The events of a converted turn, each after its type; the last has the stop reason."""
    pieces = list(split_text(turn.text)) or [""]
    for number, piece in enumerate(pieces, 1):
        is_last = number == len(pieces) and turn.failure is None
        yield COMPLETION, _encode_completion(turn, piece, is_last=is_last)


def encode_whole_response(turn: Turn) -> Document:
    """The whole completion of a converted turn."""
    return _encode_completion(turn, turn.text, is_last=True)


def _encode_completion(turn: Turn, text: str, *, is_last: bool) -> Document:
    return {
        "type": COMPLETION,
        "id": turn.id,
        COMPLETION: text,
        "stop_reason": turn.finish_raw if is_last else None,
        "model": turn.model,
        _STOP_FIELD: dict(turn.metadata).get(_STOP_FIELD) if is_last else None,
        "log_id": turn.id,
    }


def _without_request_id_unless_failed(turn: Turn) -> Turn:
    return (
        turn
        if turn.failure
        else replace(turn, metadata=nonempty_metadata(turn.metadata, (_STOP_FIELD,)))
    )
