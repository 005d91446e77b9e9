"""Flattens JSON values into leaves by path, and finds the leaves that differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.diff.json_leaves import json_path_step
from llm_proxy.turns import Json

_MAX_DEPTH: Final = 50
"""Deeper values are not flattened, but written as JSON."""


def flatten_json(path: str, value: Json, depth: int = _MAX_DEPTH) -> Iterator[tuple[str, str]]:
    """Yields the path and the text of every leaf: a string as it is, other values as JSON."""
    match value:
        case dict() if value and depth:
            for name, item in value.items():
                yield from flatten_json(path + json_path_step(name), item, depth - 1)
        case list() if value and depth:
            for index, item in enumerate(value):
                yield from flatten_json(f"{path}[{index}]", item, depth - 1)
        case str():
            yield path, value
        case _:
            yield path, lenient_json.compact_json(value)


def differing_values(
    one: Mapping[str, str], other: Mapping[str, str]
) -> Iterator[tuple[str, str, str]]:
    """Yields the path and both values of each difference; a missing value is empty."""
    for path in dict.fromkeys((*one, *other)):
        first_value, second_value = one.get(path, ""), other.get(path, "")
        if first_value != second_value:
            yield path, first_value, second_value
