"""Reads untrusted JSON without raising.

Providers, gateways and mocks send values of any type.  Each function here takes any JSON value,
or the name of a field (`get_text`), and returns a value of the type in its name; a value of another
type counts as absent.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import Final, cast

import orjson

from llm_proxy.turns import Json, Metadata

Fields = Mapping[str, Json]
"""The fields of one JSON object."""

_NO_FIELDS: Final[Fields] = {}
_EMPTY_VALUES: Final[tuple[Json, ...]] = (None, "", [], {})
_INTEGER_LIMIT: Final = 2**53
"""From here on, parsers that use doubles are not exact."""


def parse_json(data: bytes) -> Json:
    """Parses JSON.  Raises `ValueError` for invalid JSON.

    More lenient than orjson, as clients are: accepts `NaN` (vLLM's log probabilities), lone
    surrogates (servers that cut text by UTF-16 units) and a byte order mark.
    """
    with suppress(orjson.JSONDecodeError):  # stricter than the parsers of clients
        return cast("Json", orjson.loads(data))
    try:
        return cast("Json", json.loads(data.decode("utf-8-sig")))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def parse_object(data: bytes) -> Fields:
    """The fields of a JSON object; none for invalid JSON and for other values."""
    try:
        return object_fields(parse_json(data))
    except ValueError:
        return _NO_FIELDS


def object_fields(value: Json) -> Fields:
    """The fields of an object; none for another value."""
    return value if isinstance(value, dict) else _NO_FIELDS


def array_objects(value: Json) -> list[Fields]:
    """The objects in an array; items of other types are left out."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def one_or_more_objects(value: Json) -> list[Fields]:
    """The objects in an array, or an object as the only one."""
    return array_objects(value if isinstance(value, list) else [value])


def array_items(value: Json) -> list[Json]:
    """The items of an array; none for another value."""
    return value if isinstance(value, list) else []


def str_or_empty(value: Json) -> str:
    """A string unchanged; lone surrogates are left for `join_pieces` to replace."""
    return value if isinstance(value, str) else ""


def value_as_text(value: Json) -> str:
    """A string without lone surrogates for any value: null is empty, other types are JSON text."""
    match value:
        case None:
            return ""
        case str():
            return join_pieces([value])
        case _:
            return compact_json(value)


def first_integer(*values: Json) -> int | None:
    """The first value that is an integer (or an integral float) below 2**53 in magnitude."""
    for value in values:
        number = int(value) if isinstance(value, float) and value.is_integer() else value
        if (
            isinstance(number, int)
            and not isinstance(number, bool)
            and abs(number) < _INTEGER_LIMIT
        ):
            return number
    return None


def get_text(fields: Fields, name: str) -> str:
    """`value_as_text` of a field."""
    value = fields.get(name)
    return "" if value is None else value_as_text(value)


def get_string(fields: Fields, name: str) -> str:
    """`str_or_empty` of a field."""
    value = fields.get(name)
    return value if isinstance(value, str) else ""


def get_object(fields: Fields, name: str) -> Fields:
    """`object_fields` of a field."""
    value = fields.get(name)
    return value if isinstance(value, dict) else _NO_FIELDS


def get_objects(fields: Fields, name: str) -> list[Fields]:
    """`array_objects` of a field."""
    value = fields.get(name)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def get_items(fields: Fields, name: str) -> list[Json]:
    """`array_items` of a field."""
    value = fields.get(name)
    return value if isinstance(value, list) else []


def get_integer(fields: Fields, name: str) -> int | None:
    """`first_integer` of a field."""
    value = fields.get(name)
    return None if value is None else first_integer(value)


def get_span(fields: Fields, start_name: str, end_name: str) -> tuple[int, int] | None:
    """A start and an end after it, from two fields; None for any other values."""
    start, end = get_integer(fields, start_name), get_integer(fields, end_name)
    return None if start is None or end is None or start >= end else (start, end)


def join_pieces(pieces: Iterable[str]) -> str:
    """Joins the pieces into one string without lone surrogates.

    A surrogate pair that was split between two pieces becomes its character; a lone surrogate
    becomes U+FFFD, since nothing downstream could encode it.
    """
    joined = "".join(pieces)
    try:
        joined.encode()
    except UnicodeEncodeError:
        return joined.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return joined


def compact_json(value: Json) -> str:
    """The value as JSON text without spaces; empty if it is nested too deeply."""
    with suppress(orjson.JSONEncodeError):  # lone surrogates, integers beyond 64 bits
        return orjson.dumps(value).decode()
    try:
        return json.dumps(value, separators=(",", ":"))
    except RecursionError:
        return ""


def is_same_json(left: Json, right: Json) -> bool:
    """Whether two values are equal as JSON: 1 and 1.0 are, 1 and true are not."""
    match left, right:
        case (list(), list()):
            return len(left) == len(right) and all(map(is_same_json, left, right))
        case (dict(), dict()):
            return left.keys() == right.keys() and all(
                is_same_json(left[name], right[name]) for name in left
            )
        case _:
            return isinstance(left, bool) is isinstance(right, bool) and left == right


def select_metadata(source: Fields, names: Iterable[str]) -> Metadata:
    """The named fields as pairs; empty values and those that JSON cannot preserve are left out."""
    pairs = [(name, source[name]) for name in names if name in source]
    if not pairs:
        return ()
    return tuple(
        [pair for pair in pairs if pair[1] not in _EMPTY_VALUES and _survives_json_round_trip(pair)]
    )


def selected_fields(source: Fields | Metadata, names: Iterable[str]) -> dict[str, Json]:
    """`select_metadata` as the fields of an object."""
    return dict(select_metadata(dict(source), names))


def metadata_except(source: Fields, known: Collection[str]) -> Metadata:
    """`select_metadata` of the fields that are not known."""
    return select_metadata(source, (name for name in source if name not in known))


def _survives_json_round_trip(pair: tuple[str, Json]) -> bool:
    """Whether it survives a JSON round trip: NaN, for example, does not."""
    try:
        return bool(orjson.loads(orjson.dumps(pair)) == list(pair))
    except orjson.JSONEncodeError:
        return False
