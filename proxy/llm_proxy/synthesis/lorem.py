"""Placeholder words for synthesized responses."""

from __future__ import annotations

from hashlib import sha256
from itertools import cycle, islice
from typing import Final

_WORDS: Final = tuple(
    """
    lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor incididunt ut
    labore et dolore magna aliqua ut enim ad minim veniam quis nostrud exercitation ullamco laboris
    nisi ut aliquip ex ea commodo consequat duis aute irure dolor in reprehenderit in voluptate
    velit esse cillum dolore eu fugiat nulla pariatur excepteur sint occaecat cupidatat non
    proident sunt in culpa qui officia deserunt mollit anim id est laborum
    """.split()  # noqa: SIM905 # a text of words, one a line would hide it
)
_MIN_WORDS: Final = 5
_DISTINCT_COUNTS: Final = 496
"""Number of possible word counts: 5 to 500."""


def hash_based_word_count(message: str) -> int:
    """The number of words in the response to a message: 5 plus the message's hash modulo 496.

    The hash is the same on every platform: the first 8 bytes of the SHA-256 of the message in
    UTF-8, as an unsigned big-endian number.
    """
    digest = sha256(message.encode("utf-8", "surrogatepass")).digest()
    return _MIN_WORDS + int.from_bytes(digest[:8], "big") % _DISTINCT_COUNTS


def lorem_words(count: int) -> str:
    """The first `count` words, separated by single spaces; repeats the list as needed."""
    return " ".join(islice(cycle(_WORDS), count))
