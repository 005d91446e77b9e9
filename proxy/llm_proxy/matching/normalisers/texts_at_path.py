"""What stands at the paths by which dialects say where something is: `$.messages[*].id`."""

from __future__ import annotations

from collections.abc import Iterator

from llm_proxy.turns import Json


def texts_at(value: Json, path: str) -> Iterator[str]:
    """The texts at a path of members, in their order; `name[*]` is each item of a list."""
    yield from _at(value, path.removeprefix("$.").split("."))


def _at(value: Json, path: list[str]) -> Iterator[str]:
    if not path:
        if isinstance(value, str):
            yield value
        return
    if not isinstance(value, dict):
        return
    name, *rest = path
    inner = value.get(name.removesuffix("[*]"))
    if not name.endswith("[*]"):
        yield from _at(inner, rest)
    elif isinstance(inner, list):
        for item in inner:
            yield from _at(item, rest)
