"""Finds, compares and shows JSON values in the results of tools."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from llm_proxy.errors import JsonPathTooManySteps, printable_excerpt
from llm_proxy.json_paths import StepBudget, compile_path, find_nodes
from llm_proxy.turns import Json
from llm_pytest.plugin_base import ToolError

MAX_SHOWN_CHARS: Final = 2000
"""The most characters of a compared value in a result: the model pays for each."""
_MAX_SHOWN_PATH_CHARS: Final = 200
_MAX_VISITED_VALUES: Final = 200_000
"""The limit of one path; about half a second."""
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


def find_value(path: str, document: Json) -> Json | UnsetType:
    """The value at a JSONPath; for a path that may find several values the list of them.

    UNSET if nothing is found.  Raises `ToolError` for an invalid path.
    """
    shown = printable_excerpt(path, _MAX_SHOWN_PATH_CHARS)
    try:
        compiled = compile_path(path)
        values: list[Any] = (
            [node.value for node in find_nodes(compiled, document, StepBudget(_MAX_VISITED_VALUES))]
            if isinstance(document, dict | list)
            else [document] * (not compiled.segments)
        )
    except ValueError as error:
        raise ToolError(f"{shown} is not a valid JSONPath: {error}") from None
    except JsonPathTooManySteps:
        raise ToolError(
            f"{shown} visits more than {_MAX_VISITED_VALUES:,} values; use a narrower path"
        ) from None
    if not values:
        return UNSET
    return values[0] if compiled.singular_query() else values


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
