"""Parses JSON without losing information.

A parser takes the last of two members of one name, and makes a double of a whole number beyond 64
bits.  What a client sent so is no JSON for us, but a text that counts, and is kept, byte for byte.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

import orjson

from llm_proxy.turns import Json

_LONG: Final = re.compile(rb"[0-9]{19}")
"""What a whole number beyond 64 bits is spelled with."""
_APART: Final = re.compile(rb'"[ \t\r\n]+:')
_QUOTE: Final = rb"\u0022"
"""A quotation mark within a text that is written back otherwise, so that no counting holds."""
_LEAST: Final = -(2**63)
_MOST: Final = 2**64 - 1


def parse_exact(body: bytes) -> tuple[Json] | None:
    """The value that a JSON text spells; None where it is none, or more than that value says."""
    try:
        value: Json = orjson.loads(body)
        if _may_lose_information(body, value):
            json.loads(body, object_pairs_hook=_unique_members, parse_int=_bounded_integer)
    except (ValueError, TypeError, RecursionError):
        return None
    return (value,)


def _may_lose_information(body: bytes, value: Json) -> bool:
    """Whether a member may be there twice, or a number be too large.  Quick: it is seldom so."""
    if _QUOTE in body or _LONG.search(body) is not None or _APART.search(body) is not None:
        return True
    return body.count(b'":') > orjson.dumps(value).count(b'":')


def _unique_members(pairs: list[tuple[str, Any]]) -> None:
    """Raises `ValueError` where two have one name."""
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError("a member twice")


def _bounded_integer(digits: str) -> None:
    """Raises `ValueError` for a number that is beyond 64 bits."""
    if not _LEAST <= int(digits) <= _MOST:
        raise ValueError("a number beyond 64 bits")
