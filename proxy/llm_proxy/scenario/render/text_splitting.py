"""How the texts of an answer are cut for a stream, as its scenario says."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Final

from llm_proxy.dialects.encode_context import pieces
from llm_proxy.scenario.documents.document import Chunks
from llm_proxy.scenario.scripted_response import Cut, whole

_WORD: Final = re.compile(r"\s*\S+(?:\s+\Z)?|\s+")
"""A word with the white space before it; the last one has that behind it too."""


def cutter(chunks: Chunks | None) -> Cut:
    """The cut that a scenario asks for; one piece where it asks for none."""
    if chunks is None:
        return whole
    match chunks.by:
        case "whole":
            return whole
        case "tokens":
            return partial(tokens, size=chunks.size)
        case "words":
            return partial(words, size=chunks.size)
        case "characters":
            return partial(characters, size=chunks.size)


def tokens(text: str, size: int) -> tuple[str, ...]:
    """A text in pieces of about so many tokens."""
    return _joined(pieces(text), size)


def words(text: str, size: int) -> tuple[str, ...]:
    """A text in pieces of so many words, the last one of what is left.

    White space belongs to the word behind it, at the end to the last word.
    """
    return _joined(_WORD.findall(text), size)


def characters(text: str, size: int) -> tuple[str, ...]:
    """A text in pieces of so many characters (code points), the last one of what is left."""
    return tuple(text[at : at + size] for at in range(0, len(text), size))


def _joined(parts: Sequence[str], size: int) -> tuple[str, ...]:
    """So many parts at a time as one."""
    return tuple("".join(parts[at : at + size]) for at in range(0, len(parts), size))
