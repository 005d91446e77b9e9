"""Deterministic tokens: up to four ASCII characters each, or one other character.

A token's id encodes its characters, so that detokenizing needs no vocabulary.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_PIECE: Final = re.compile(r"[\x00-\x7f]{1,4}|[^\x00-\x7f]")
_PACKED_OFFSET: Final = 0x110000
"""Ids below are code points; ids above pack ASCII characters, seven bits each."""

_BITS_PER_CHAR: Final = 7
_PACKED_TOKEN_IDS: Final = range(
    _PACKED_OFFSET + (1 << _BITS_PER_CHAR), _PACKED_OFFSET + (1 << 4 * _BITS_PER_CHAR + 1)
)
_UNKNOWN: Final = "\N{REPLACEMENT CHARACTER}"


def token_strings(text: str) -> list[str]:
    """The text, split into tokens; joined, they are the text."""
    return _PIECE.findall(text)


def token_id(token_string: str) -> int:
    """The id of a token that `token_strings` gave."""
    if not token_string.isascii():
        return ord(token_string)
    packed = 1
    for character in token_string:
        packed = packed << _BITS_PER_CHAR | ord(character)
    return _PACKED_OFFSET + packed


def detokenize(token_ids: Iterable[int]) -> str:
    """The text of these token ids; an invalid id becomes U+FFFD."""
    return "".join(map(_string_of_token, token_ids))


def _string_of_token(token: int) -> str:
    if token in _PACKED_TOKEN_IDS:
        packed, characters = token - _PACKED_OFFSET, ""
        while packed > 1:
            characters = chr(packed % (1 << _BITS_PER_CHAR)) + characters
            packed >>= _BITS_PER_CHAR
        return characters
    is_character = 0 <= token < _PACKED_OFFSET and not 0xD800 <= token < 0xE000  # surrogates
    return chr(token) if is_character else _UNKNOWN
