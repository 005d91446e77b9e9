"""Finds the texts at a dialect's field path, such as `$.messages[*].id`."""

from __future__ import annotations

from collections.abc import Iterator

from llm_proxy.turns import Json


def texts_at_path(value: Json, path: str) -> Iterator[str]:
    """The texts at a path of members, in order; `name[*]` stands for each item of a list."""
    yield from _values_at_path(value, path.removeprefix("$.").split("."))


def _values_at_path(value: Json, path: list[str]) -> Iterator[str]:
    if not path:
        if isinstance(value, str):
            yield value
        return
    if not isinstance(value, dict):
        return
    name, *rest = path
    inner = value.get(name.removesuffix("[*]"))
    if not name.endswith("[*]"):
        yield from _values_at_path(inner, rest)
    elif isinstance(inner, list):
        for item in inner:
            yield from _values_at_path(item, rest)
