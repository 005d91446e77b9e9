"""Reads untrusted JSON without raising.

Providers, gateways and mocks write what they like.  Each function here takes any JSON value
and gives one of the kind it is named for; what is of another kind counts as absent.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final, cast

import orjson

from llm_proxy.turns import Json, Metadata

Fields = Mapping[str, Json]
"""The fields of one JSON object."""

_NOTHING: Final[Fields] = {}
_EMPTY: Final[tuple[Json, ...]] = (None, "", [], {})
_COUNT_LIMIT: Final = 2**53
"""From here on, numbers are not exact everywhere."""


def parse_json(data: bytes) -> Json:
    """The JSON value that these bytes spell.  Raises `ValueError` where they spell none.

    Beyond orjson it reads what clients read too: `NaN` (vLLM's log probabilities), one half
    of a surrogate pair (servers that cut text by UTF-16 units), a byte order mark.
    """
    with suppress(orjson.JSONDecodeError):  # stricter than what clients read with
        return cast("Json", orjson.loads(data))
    try:
        return cast("Json", json.loads(data.decode("utf-8-sig")))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def parse_object(data: bytes) -> Fields:
    """The fields of the JSON object that these bytes spell; none where they spell no object."""
    try:
        return object_fields(parse_json(data))
    except ValueError:
        return _NOTHING


def object_fields(value: Json) -> Fields:
    """The fields of an object."""
    return value if isinstance(value, dict) else _NOTHING


def object_items(value: Json) -> list[Fields]:
    """The objects in an array."""
    return [item for item in array_items(value) if isinstance(item, dict)]


def array_items(value: Json) -> list[Json]:
    """The items of an array."""
    return value if isinstance(value, list) else []


def str_or_empty(value: Json) -> str:
    """A string as it stands; halves of surrogate pairs are left for `joined` to mend."""
    return value if isinstance(value, str) else ""


def printable_text(value: Json) -> str:
    """A string fit for printing, whatever the value: null is empty, the rest is spelled out."""
    match value:
        case None:
            return ""
        case str():
            return join_pieces([value])
        case _:
            return compact_json(value)


def first_count(*values: Json) -> int | None:
    """The first of the values that is a whole number, of the size that JSON writers agree on."""
    for value in values:
        whole = int(value) if isinstance(value, float) and value.is_integer() else value
        if isinstance(whole, int) and not isinstance(whole, bool) and abs(whole) < _COUNT_LIMIT:
            return whole
    return None


def join_pieces(pieces: Iterable[str]) -> str:
    """The pieces as one string of whole characters.

    A surrogate pair that two pieces share becomes its character; a half alone becomes U+FFFD,
    since nothing downstream could write it.
    """
    whole = "".join(pieces)
    try:
        whole.encode()
    except UnicodeEncodeError:
        return whole.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return whole


def compact_json(value: Json) -> str:
    """The value as JSON text without spaces; empty where it is nested too deeply to write."""
    with suppress(orjson.JSONEncodeError):  # halves of surrogate pairs, integers beyond 64 bits
        return orjson.dumps(value).decode()
    try:
        return json.dumps(value, separators=(",", ":"))
    except RecursionError:
        return ""


def is_same_json(one: Json, other: Json) -> bool:
    """Whether two values are the same JSON: 1 and 1.0 are, 1 and true are not."""
    match one, other:
        case (list(), list()):
            return len(one) == len(other) and all(map(is_same_json, one, other))
        case (dict(), dict()):
            return one.keys() == other.keys() and all(
                is_same_json(one[text], other[text]) for text in one
            )
        case _:
            return isinstance(one, bool) is isinstance(other, bool) and one == other


def named_metadata(source: Fields, names: Iterable[str]) -> Metadata:
    """The named fields that say something, as they stand."""
    pairs = ((name, source.get(name)) for name in names)
    return tuple(pair for pair in pairs if pair[1] not in _EMPTY and _is_lossless_field(pair))


def _is_lossless_field(pair: tuple[str, Json]) -> bool:
    """Whether it can be written, and is read as it was: NaN, say, is not."""
    try:
        return bool(orjson.loads(orjson.dumps(pair)) == list(pair))
    except orjson.JSONEncodeError:
        return False
