"""Flattens values into leaves by path, and finds the differing leaves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.diff.json_leaves import path_step
from llm_proxy.turns import Json

_DEEPEST: Final = 50
"""Levels of nesting that are looked into."""


def flatten(path: str, value: Json, depth: int = _DEEPEST) -> Iterator[tuple[str, str]]:
    """Every value within a value, under its path: a text as it is, anything else as JSON."""
    match value:
        case dict() if value and depth:
            for name, item in value.items():
                yield from flatten(path + path_step(name), item, depth - 1)
        case list() if value and depth:
            for index, item in enumerate(value):
                yield from flatten(f"{path}[{index}]", item, depth - 1)
        case str():
            yield path, value
        case _:
            yield path, lenient_json.compact_json(value)


def differing_values(
    one: Mapping[str, str], other: Mapping[str, str]
) -> Iterator[tuple[str, str, str]]:
    """Where two sets of values differ: the path, and both values; empty for none."""
    for path in dict.fromkeys((*one, *other)):
        before, after = one.get(path, ""), other.get(path, "")
        if before != after:
            yield path, before, after
