"""Splits the texts of a response into pieces for streaming."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Final

from llm_proxy.dialects.encode_context import token_pieces
from llm_proxy.scenario.documents.document import ChunkSpec
from llm_proxy.scenario.scripted_response import TextSplitter, as_single_piece

_WORD_WITH_SPACE: Final = re.compile(r"\s*\S+(?:\s+\Z)?|\s+")
"""A word with its leading white space; the last one also with its trailing white space."""


def text_splitter(chunks: ChunkSpec | None) -> TextSplitter:
    """The splitter for a scenario's `chunks`; without them, texts stay in one piece."""
    if chunks is None:
        return as_single_piece
    match chunks.by:
        case "whole":
            return as_single_piece
        case "tokens":
            return partial(split_tokens, size=chunks.size)
        case "words":
            return partial(split_words, size=chunks.size)
        case "characters":
            return partial(split_characters, size=chunks.size)


def split_tokens(text: str, size: int) -> tuple[str, ...]:
    """Split a text into pieces of about `size` tokens."""
    return _join_in_groups(token_pieces(text), size)


def split_words(text: str, size: int) -> tuple[str, ...]:
    """Split a text into pieces of `size` words; the last may have fewer.

    White space belongs to the word after it, at the end of the text to the last word.
    """
    return _join_in_groups(_WORD_WITH_SPACE.findall(text), size)


def split_characters(text: str, size: int) -> tuple[str, ...]:
    """Split a text into pieces of `size` characters (code points); the last may have fewer."""
    return tuple(text[start : start + size] for start in range(0, len(text), size))


def _join_in_groups(pieces: Sequence[str], size: int) -> tuple[str, ...]:
    return tuple("".join(pieces[start : start + size]) for start in range(0, len(pieces), size))
