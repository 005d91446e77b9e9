"""Parses JSON without losing information.

A JSON parser keeps the last of two members with the same name and turns an integer beyond 64 bits
into a double.  Such a body is treated as text, not as JSON: it is kept and compared byte for byte.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, Final

import orjson

from llm_proxy.turns import Json

_SUSPICIOUS: Final = (
    rb"[0-9]{19}"  # an integer beyond 64 bits contains as many digits
    rb"|\\u003[aA]"  # a colon, which is written back otherwise, so that members are counted wrong
)
_MIN_INT64: Final = -(2**63)
_MAX_UINT64: Final = 2**64 - 1


def parse_exact(body: bytes) -> tuple[Json] | None:
    """Parse a JSON text; the value in a 1-tuple, so that `null` differs from failure.

    None if it is no JSON, or if the parsed value would lose information.
    """
    try:
        value: Json = orjson.loads(body)
        if _may_lose_information(body, value):
            json.loads(
                body, object_pairs_hook=_check_unique_members, parse_int=_check_integer_range
            )
    except (ValueError, TypeError, RecursionError):
        return None
    return (value,)


def _may_lose_information(body: bytes, value: Json) -> bool:
    """Whether a member may be repeated or a number too large: a cheap test that rarely fires."""
    if _suspicious().search(body) is not None:
        return True
    return body.count(b":") > orjson.dumps(value).count(b":")


@lru_cache(1)
def _suspicious() -> Any:
    import re2  # noqa: PLC0415 # 5 ms, only where JSON is parsed

    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    return re2.compile(_SUSPICIOUS, options)  # it does not hold the GIL, as `re` does


def _check_unique_members(pairs: list[tuple[str, Any]]) -> None:
    """Raises `ValueError` if two members have the same name."""
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError("duplicate member name")


def _check_integer_range(digits: str) -> None:
    """Raises `ValueError` for an integer beyond 64 bits."""
    if not _MIN_INT64 <= int(digits) <= _MAX_UINT64:
        raise ValueError("integer beyond 64 bits")
