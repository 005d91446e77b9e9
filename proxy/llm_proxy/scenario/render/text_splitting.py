"""Splits the texts of a response for streaming, as the scenario says."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Final

from llm_proxy.dialects.encode_context import token_pieces
from llm_proxy.scenario.documents.document import ChunkSpec
from llm_proxy.scenario.scripted_response import Cut, uncut

_WORD: Final = re.compile(r"\s*\S+(?:\s+\Z)?|\s+")
"""A word with the white space before it; the last one has that behind it too."""


def text_splitter(chunks: ChunkSpec | None) -> Cut:
    """The cut that a scenario asks for; one piece where it asks for none."""
    if chunks is None:
        return uncut
    match chunks.by:
        case "whole":
            return uncut
        case "tokens":
            return partial(split_tokens, size=chunks.size)
        case "words":
            return partial(split_words, size=chunks.size)
        case "characters":
            return partial(split_characters, size=chunks.size)


def split_tokens(text: str, size: int) -> tuple[str, ...]:
    """A text in pieces of about so many tokens."""
    return _join_in_groups(token_pieces(text), size)


def split_words(text: str, size: int) -> tuple[str, ...]:
    """A text in pieces of so many words, the last one of what is left.

    White space belongs to the word behind it, at the end to the last word.
    """
    return _join_in_groups(_WORD.findall(text), size)


def split_characters(text: str, size: int) -> tuple[str, ...]:
    """A text in pieces of so many characters (code points), the last one of what is left."""
    return tuple(text[at : at + size] for at in range(0, len(text), size))


def _join_in_groups(parts: Sequence[str], size: int) -> tuple[str, ...]:
    return tuple("".join(parts[at : at + size]) for at in range(0, len(parts), size))
