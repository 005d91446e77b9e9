"""Estimated token counts and fake embeddings for responses that no model made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.fake_embeddings import fake_embedding
from llm_proxy.turns import Json

__all__ = ["estimated_token_count", "fake_embedding", "model_input_texts", "token_count_of_chars"]

_CHARS_PER_TOKEN: Final = 4
"""A rule of thumb."""
_MAX_DEPTH: Final = 100
"""Nesting levels of a request that are searched for texts."""


def estimated_token_count(text: str) -> int:
    """A quarter of the text's characters, rounded up."""
    return token_count_of_chars(len(text))


def token_count_of_chars(char_count: int) -> int:
    """The estimated number of tokens in so many characters: a quarter, rounded up."""
    return -(-char_count // _CHARS_PER_TOKEN)


def model_input_texts(
    value: Json, text_fields: Sequence[str], json_fields: Sequence[str], max_depth: int = _MAX_DEPTH
) -> Iterator[str]:
    """The texts of a request that the model reads: strings in lists and under `text_fields`.

    Values under `json_fields` are read as compact JSON; all other fields are skipped.
    """
    match value:
        case str():
            yield value
        case list() if max_depth:
            for item in value:
                yield from model_input_texts(item, text_fields, json_fields, max_depth - 1)
        case dict() if max_depth:
            for name in text_fields:
                yield from model_input_texts(
                    value.get(name), text_fields, json_fields, max_depth - 1
                )
            yield from (
                lenient_json.compact_json(value[name]) for name in json_fields if value.get(name)
            )
        case _:
            pass
