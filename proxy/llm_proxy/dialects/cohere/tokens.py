"""Deterministic tokens: up to four ASCII characters each, or one other character.

A token is told from its number alone, so that what was made of a text can be made a text again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_PIECE: Final = re.compile(r"[\x00-\x7f]{1,4}|[^\x00-\x7f]")
_FIRST: Final = 0x110000
"""Numbers below are code points; those above hold ASCII characters, seven bits each."""

_BITS: Final = 7
_PACKED: Final = range(_FIRST + (1 << _BITS), _FIRST + (1 << 4 * _BITS + 1))
_UNKNOWN: Final = "\N{REPLACEMENT CHARACTER}"


def token_strings(text: str) -> list[str]:
    """The strings of a text's tokens; joined, they are the text."""
    return _PIECE.findall(text)


def token_number(piece: str) -> int:
    """The number of a token."""
    if not piece.isascii():
        return ord(piece)
    packed = 1
    for character in piece:
        packed = packed << _BITS | ord(character)
    return _FIRST + packed


def text_of_tokens(numbers: Iterable[int]) -> str:
    """The text that these tokens are of; those of no text are unknown characters."""
    return "".join(map(_string_of_token, numbers))


def _string_of_token(token: int) -> str:
    if token in _PACKED:
        packed, characters = token - _FIRST, ""
        while packed > 1:
            characters = chr(packed % (1 << _BITS)) + characters
            packed >>= _BITS
        return characters
    is_character = 0 <= token < _FIRST and not 0xD800 <= token < 0xE000  # halves of pairs
    return chr(token) if is_character else _UNKNOWN
