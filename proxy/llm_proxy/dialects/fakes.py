"""Deterministic token counts for responses that no model made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.fake_embeddings import fake_embedding
from llm_proxy.turns import Json

__all__ = ["estimated_tokens", "fake_embedding", "model_input_texts", "tokens_of_chars"]

_CHARACTERS: Final = 4
"""Of a text to a token, as a rule of thumb goes."""
_DEEPEST: Final = 100
"""Levels of a request that are looked into for texts."""


def estimated_tokens(text: str) -> int:
    """About how many tokens a text has: a quarter of its characters, rounded up."""
    return tokens_of_chars(len(text))


def tokens_of_chars(characters: int) -> int:
    """About how many tokens so many characters make."""
    return -(-characters // _CHARACTERS)


def model_input_texts(
    value: Json, holders: Sequence[str], objects: Sequence[str], depth: int = _DEEPEST
) -> Iterator[str]:
    """What a model would read of a request: the strings in its lists and its `holders`.

    What stands under `objects` it reads as JSON; what only says how things are, it does not read.
    """
    match value:
        case str():
            yield value
        case list() if depth:
            for item in value:
                yield from model_input_texts(item, holders, objects, depth - 1)
        case dict() if depth:
            for name in holders:
                yield from model_input_texts(value.get(name), holders, objects, depth - 1)
            yield from (
                lenient_json.compact_json(value[name]) for name in objects if value.get(name)
            )
        case _:
            pass
