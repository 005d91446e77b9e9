"""Compares two requests leaf by leaf: every value of a document by its path."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from llm_proxy.matching import large_base64
from llm_proxy.matching.key_documents import KeyDocument

_PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class RequestDifference:
    """One value in which two requests differ."""

    path: str
    """`$.messages[1].content`, or `method`, `path`, `query`, `headers.anthropic-beta`."""
    requested: str
    """The value in the request, as JSON; empty where it has none."""
    stored: str
    """The value in the cassette, as JSON; empty where it has none."""
    path_steps: tuple[str | int, ...] = ()
    """The names and indexes of `path` within a JSON body; empty outside of the body."""


def json_leaves(document: KeyDocument) -> dict[str, str]:
    """Every value of a key document by its path, as JSON; large base64 is replaced by its hash."""
    leaves = {
        "method": document.method,
        "provider": document.provider,
        "path": document.path,
        "query": document.query,
        **{f"headers.{name}": value for name, value in document.headers},
    }
    if document.body_kind == "text":
        leaves["body"] = document.canonical_body().decode("utf-8", "replace")
    else:
        leaves |= _json_value_leaves("$", document.body)
    return leaves


def json_path_step(name: str) -> str:
    """A member's name as a step of a JSONPath: `.name`, or `['a name']`."""
    if _PLAIN_NAME.fullmatch(name):
        return f".{name}"
    quoted = json.dumps(name, ensure_ascii=False)
    if "'" not in name:
        quoted = "'" + quoted[1:-1].replace('\\"', '"') + "'"
    return f"[{quoted}]"


def _json_value_leaves(path: str, value: Any) -> Iterator[tuple[str, str]]:
    match value:
        case dict() if value:
            for name, item in value.items():
                yield from _json_value_leaves(path + json_path_step(name), item)
        case list() if value:
            for index, item in enumerate(value):
                yield from _json_value_leaves(f"{path}[{index}]", item)
        case _:
            yield path, json_value_text(value)


def json_value_text(value: Any) -> str:
    """A value as JSON, with large base64 replaced by its hash."""
    return orjson.dumps(_hash_base64_in(value)).decode()


def _hash_base64_in(value: Any) -> Any:
    match value:
        case dict():
            return {name: _hash_base64_in(item) for name, item in value.items()}
        case list():
            return [_hash_base64_in(item) for item in value]
        case str():
            return large_base64.replace_large_base64(value)
        case _:
            return value


def compare_leaves(
    requested: Mapping[str, str], stored: Mapping[str, str]
) -> list[RequestDifference]:
    """The differences of the leaves of two requests, in the order of the first."""
    paths: Iterable[str] = dict.fromkeys([*requested, *stored])
    return [
        RequestDifference(path, requested.get(path, ""), stored.get(path, ""))
        for path in paths
        if requested.get(path) != stored.get(path)
    ]
