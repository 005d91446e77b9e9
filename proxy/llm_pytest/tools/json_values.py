"""Compares and shows JSON values in the results of tools."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

import msgspec

from llm_proxy.turns import Json

MAX_SHOWN_CHARS: Final = 2000
"""The most characters of a compared value in a result: the model pays for each."""
_MAX_DEPTH: Final = 100
"""The deepest nesting of JSON; deeper text is no JSON, so that nothing exceeds the call stack."""


def parse_json(body: bytes) -> tuple[Json] | None:
    """Parse a JSON text; the value in a 1-tuple, so that `null` differs from failure.

    None also for `NaN`, numbers that no double represents, and values nested too deeply.
    """
    try:
        value: Json = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return None if _is_too_deep(value) else (value,)


def _is_too_deep(value: Json) -> bool:
    level = [value]
    for _ in range(_MAX_DEPTH):
        children: list[Json] = []
        for container in level:
            match container:
                case dict():
                    children += container.values()
                case list():
                    children += container
                case _:
                    pass
        if not children:
            return False
        level = children
    return True


def comparison_key(value: Json) -> Hashable:
    """A value that is equal for equal JSON values: 1 equals 1.0, but neither `true` nor "1"."""
    match value:
        case bool():
            return (bool, value)
        case dict():
            return frozenset((name, comparison_key(member)) for name, member in value.items())
        case list():
            return tuple(comparison_key(item) for item in value)
        case _:
            return value


def are_equal(first: Json, second: Json) -> bool:
    """Whether two JSON values are equal, with their types."""
    return comparison_key(first) == comparison_key(second)


def json_type(value: Json) -> str:
    """The type of a JSON value, with its article."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case list():
            return "a list"
        case dict():
            return "an object"


def cut_text(text: str, max_chars: int) -> str:
    """The text, or its beginning and a mark that says how long it is."""
    if len(text) <= max_chars:
        return text
    return f"{text[:max_chars]}… [cut: {len(text):,} characters in all]"


def shown_value(value: Json) -> Json:
    """The value for a result; if its JSON is long, the beginning of it as text."""
    if isinstance(value, str):
        return cut_text(value, MAX_SHOWN_CHARS)
    text = msgspec.json.encode(value).decode() if isinstance(value, list | dict) else ""
    return value if len(text) <= MAX_SHOWN_CHARS else cut_text(text, MAX_SHOWN_CHARS)
