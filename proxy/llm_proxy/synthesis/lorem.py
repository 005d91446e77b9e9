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
_LEAST: Final = 5
_COUNTS: Final = 496
"""How many different counts there are: 5 to 500."""


def word_count(message: str) -> int:
    """How many words the answer to a message has: 5, and the message's hash modulo 496.

    The hash is the same everywhere: the first 8 bytes of the SHA-256 of the message in UTF-8, as
    an unsigned number, the most significant byte first.
    """
    digest = sha256(message.encode("utf-8", "surrogatepass")).digest()
    return _LEAST + int.from_bytes(digest[:8], "big") % _COUNTS


def lorem_words(number: int) -> str:
    """So many words with single spaces, from the first on, repeated as needed."""
    return " ".join(islice(cycle(_WORDS), number))
