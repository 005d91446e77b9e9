"""How two requests differ: every value of a document under its path."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from llm_proxy.matching import large_base64
from llm_proxy.matching.document import Document

_PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Difference:
    """One place in which two requests differ."""

    path: str
    """Where: `$.messages[1].content`, or `method`, `path`, `query`, `headers.anthropic-beta`."""
    asked: str
    """The value of the request, as JSON; empty where it has none."""
    stored: str
    """The value of the cassette, as JSON; empty where it has none."""
    parts: tuple[str | int, ...] = ()
    """The steps of a path within a JSON body; none for what stands beside it."""


def leaves(document: Document) -> dict[str, str]:
    """Every value of a document under its path, as JSON; large base64 is told by its hash."""
    flat = {
        "method": document.method,
        "provider": document.provider,
        "path": document.path,
        "query": document.query,
        **{f"headers.{name}": value for name, value in document.headers},
    }
    if document.kind == "text":
        flat["body"] = document.spelled().decode("utf-8", "replace")
    else:
        flat |= _flat("$", document.body)
    return flat


def step(name: str) -> str:
    """A member's name as a step of a JSONPath: `.name`, or `['a name']`."""
    if _PLAIN_NAME.fullmatch(name):
        return f".{name}"
    quoted = json.dumps(name, ensure_ascii=False)
    if "'" not in name:
        quoted = "'" + quoted[1:-1].replace('\\"', '"') + "'"
    return f"[{quoted}]"


def _flat(path: str, value: Any) -> Iterator[tuple[str, str]]:
    match value:
        case dict() if value:
            for name, item in value.items():
                yield from _flat(path + step(name), item)
        case list() if value:
            for index, item in enumerate(value):
                yield from _flat(f"{path}[{index}]", item)
        case _:
            yield path, told(value)


def told(value: Any) -> str:
    """A value as JSON, its large base64 told by its hash."""
    return orjson.dumps(_shortened(value)).decode()


def _shortened(value: Any) -> Any:
    match value:
        case dict():
            return {name: _shortened(item) for name, item in value.items()}
        case list():
            return [_shortened(item) for item in value]
        case str():
            return large_base64.by_hash(value)
        case _:
            return value


def differences(asked: Mapping[str, str], stored: Mapping[str, str]) -> list[Difference]:
    """Where two requests differ, in the order of the request that was asked."""
    paths: Iterable[str] = dict.fromkeys([*asked, *stored])
    return [
        Difference(path, asked.get(path, ""), stored.get(path, ""))
        for path in paths
        if asked.get(path) != stored.get(path)
    ]
