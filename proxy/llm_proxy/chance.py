"""Rolls of chance that anybody can repeat: each is a hash of what it is rolled for."""

from __future__ import annotations

from hashlib import sha256
from typing import Final

_BITS: Final = 53
"""Of a roll: all that a float tells apart between 0 and 1."""


def below(sides: int, *what: str) -> int:
    """A number from 0 to `sides` - 1: the same for the same `what`."""
    text = "\0".join(what)
    return int.from_bytes(sha256(text.encode("utf-8", "replace")).digest(), "big") % sides


def roll(*what: object) -> float:
    """A number from 0 up to, but not, 1: the same for the same strings and numbers, everywhere."""
    digest = sha256(ascii(what).encode()).digest()
    return (int.from_bytes(digest[:8], "big") >> (64 - _BITS)) / (1 << _BITS)
