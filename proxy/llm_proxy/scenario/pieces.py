"""Splits the texts of a response into pieces for streaming, and draws the gaps between them.

No draw depends on another, so concurrent or reordered requests get the same durations.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from llm_proxy.chance import seeded_uniform
from llm_proxy.dialects.encode_context import token_pieces
from llm_proxy.scenario.documents.document import ChunkSpec, MillisecondsOrRange
from llm_proxy.scenario.scripted_response import TextSplitter, as_single_piece

_WORD_WITH_SPACE: Final = re.compile(r"\s*\S+(?:\s+\Z)?|\s+")
"""A word with its leading white space; the last one also with its trailing white space."""


def text_splitter(chunks: ChunkSpec | None) -> TextSplitter:
    """The splitter for a scenario's `chunks`; without them, texts stay in one piece."""
    match chunks:
        case None | ChunkSpec(by="whole"):
            return as_single_piece
        case ChunkSpec(by="tokens"):
            return lambda text: _join_in_groups(token_pieces(text), chunks.size)
        case ChunkSpec(by="words"):
            return partial(split_words, size=chunks.size)
        case ChunkSpec():
            return lambda text: _join_in_groups(text, chunks.size)


def split_words(text: str, size: int) -> tuple[str, ...]:
    """Split a text into pieces of `size` words; the last may have fewer.

    White space belongs to the word after it, at the end of the text to the last word.
    """
    return _join_in_groups(_WORD_WITH_SPACE.findall(text), size)


def _join_in_groups(pieces: Sequence[str], size: int) -> tuple[str, ...]:
    return tuple("".join(pieces[start : start + size]) for start in range(0, len(pieces), size))


def draw_ms(span: MillisecondsOrRange, *seed_parts: object) -> float:
    """A duration in ms: a fixed span itself, or a uniform draw from a range."""
    if not isinstance(span, tuple):
        return float(span)
    low, high = span
    return min(low + (high - low) * seeded_uniform(*seed_parts), high)


def gap_ms_drawer(span: MillisecondsOrRange, *seed_parts: object) -> Callable[[int], float] | None:
    """A function from k to the gap in ms before piece k, drawn separately for each k.

    `seed_parts` identify the response: seed, session, key, ordinal.  None if all gaps are zero.
    """
    max_ms = max(span) if isinstance(span, tuple) else span
    return (lambda k: draw_ms(span, *seed_parts, k)) if max_ms > 0 else None
