"""Encodes Anthropic's legacy text completions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from llm_proxy.dialects.anthropic import errors, message_decoder
from llm_proxy.dialects.anthropic.block_encoder import Cut
from llm_proxy.dialects.anthropic.errors import REQUEST_ID
from llm_proxy.dialects.capabilities import Capabilities, nonempty_metadata
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.turns import Finish, Turn

COMPLETION: Final = "completion"
"""The type of its events and documents, and the field of its text."""

_STOP: Final = "stop"
"""Metadata: the sequence that it stopped at."""

_WORDS: Final = {
    Finish.STOP: "stop_sequence",
    Finish.STOP_SEQUENCE: "stop_sequence",
    Finish.LENGTH: "max_tokens",
}


def capabilities(*, streams: bool, context: EncodeContext) -> Capabilities:
    """The words of a completion."""
    return Capabilities(
        dialect="anthropic's completions",
        streams=streams,
        finish_of_raw=message_decoder.FINISH,
        raw_of_finish=_WORDS,
        id_prefix="compl_",
        usage_fields=(),
        metadata_names=(_STOP, REQUEST_ID),
        arrange=_without_request_id_unless_failed,
        convert_failure=errors.with_type_defaults,
        convert_failed_turn=partial(errors.with_request_id_only, context=context),
        convert_http_error_turn=partial(errors.with_request_id_only, context=context),
    )


def encode_events(turn: Turn, cut: Cut) -> Iterator[tuple[str, Document]]:
    """The events of a turn that fits, each with its type; the last one says why it stopped."""
    pieces = list(cut(turn.text)) or [""]
    for at, piece in enumerate(pieces, 1):
        is_last = at == len(pieces) and turn.failure is None
        yield COMPLETION, _encode_completion(turn, piece, is_last=is_last)


def encode_document(turn: Turn) -> Document:
    """The whole completion of a turn that fits."""
    return _encode_completion(turn, turn.text, is_last=True)


def _encode_completion(turn: Turn, text: str, *, is_last: bool) -> Document:
    return {
        "type": COMPLETION,
        "id": turn.id,
        COMPLETION: text,
        "stop_reason": turn.finish_raw if is_last else None,
        "model": turn.model,
        _STOP: dict(turn.metadata).get(_STOP) if is_last else None,
        "log_id": turn.id,
    }


def _without_request_id_unless_failed(turn: Turn) -> Turn:
    return (
        turn if turn.failure else replace(turn, metadata=nonempty_metadata(turn.metadata, (_STOP,)))
    )
