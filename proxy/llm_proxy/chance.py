"""Seeded random numbers: each is a hash of its inputs, so equal inputs give equal numbers."""

from __future__ import annotations

from hashlib import sha256
from typing import Final

_MANTISSA_BITS: Final = 53
"""Bits of a random fraction: the precision of a float."""


def seeded_int_below(upper_bound: int, *values: str) -> int:
    """An integer from 0 to `upper_bound` - 1: the same for the same `values`."""
    text = "\0".join(values)
    return int.from_bytes(sha256(text.encode("utf-8", "replace")).digest(), "big") % upper_bound


def seeded_uniform(*values: object) -> float:
    """A float in [0, 1): the same for the same strings and numbers on every machine."""
    digest = sha256(ascii(values).encode()).digest()
    return (int.from_bytes(digest[:8], "big") >> (64 - _MANTISSA_BITS)) / (1 << _MANTISSA_BITS)
