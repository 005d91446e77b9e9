"""Anthropic's legacy completions as they are told: text, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from llm_proxy.dialects.anthropic import errors, message_decoder
from llm_proxy.dialects.anthropic.block_encoder import Cut
from llm_proxy.dialects.anthropic.errors import REQUEST_ID
from llm_proxy.dialects.capabilities import Vocabulary, kept
from llm_proxy.dialects.encode_context import Delivery
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


def vocabulary(*, streams: bool, delivery: Delivery) -> Vocabulary:
    """The words of a completion."""
    return Vocabulary(
        dialect="anthropic's completions",
        streams=streams,
        finishes=message_decoder.FINISH,
        words=_WORDS,
        id_prefix="compl_",
        counts=(),
        keeps=(_STOP, REQUEST_ID),
        arranged=_arranged,
        failure=errors.instead,
        failed=partial(errors.known, delivery=delivery),
        refused=partial(errors.known, delivery=delivery),
    )


def events(turn: Turn, cut: Cut) -> Iterator[tuple[str, Document]]:
    """The events of a turn that fits, each with its type; the last one says why it stopped."""
    pieces = list(cut(turn.text)) or [""]
    for at, piece in enumerate(pieces, 1):
        is_last = at == len(pieces) and turn.failure is None
        yield COMPLETION, _completion(turn, piece, is_last=is_last)


def document(turn: Turn) -> Document:
    """The whole completion of a turn that fits."""
    return _completion(turn, turn.text, is_last=True)


def _completion(turn: Turn, said: str, *, is_last: bool) -> Document:
    return {
        "type": COMPLETION,
        "id": turn.id,
        COMPLETION: said,
        "stop_reason": turn.finish_raw if is_last else None,
        "model": turn.model,
        _STOP: dict(turn.metadata).get(_STOP) if is_last else None,
        "log_id": turn.id,
    }


def _arranged(turn: Turn) -> Turn:
    """Only an error tells what its request is known by."""
    return turn if turn.failure else replace(turn, metadata=kept(turn.metadata, (_STOP,)))
