"""Rolls of chance that anybody can repeat: each is a hash of what it is rolled for."""

from __future__ import annotations

from hashlib import sha256


def below(sides: int, *what: str) -> int:
    """A number from 0 to `sides` - 1: the same for the same `what`."""
    text = "\0".join(what)
    return int.from_bytes(sha256(text.encode("utf-8", "replace")).digest(), "big") % sides
