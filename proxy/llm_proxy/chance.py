"""Seeded chance: every draw is a hash of its inputs."""

from __future__ import annotations

from hashlib import sha256
from typing import Final

_BITS: Final = 53
"""Of a roll: all that a float tells apart between 0 and 1."""


def seeded_below(upper_bound: int, *values: str) -> int:
    """A number from 0 to `sides` - 1: the same for the same `what`."""
    text = "\0".join(values)
    return int.from_bytes(sha256(text.encode("utf-8", "replace")).digest(), "big") % upper_bound


def seeded_uniform(*values: object) -> float:
    """A number from 0 up to, but not, 1: the same for the same strings and numbers, everywhere."""
    digest = sha256(ascii(values).encode()).digest()
    return (int.from_bytes(digest[:8], "big") >> (64 - _BITS)) / (1 << _BITS)
