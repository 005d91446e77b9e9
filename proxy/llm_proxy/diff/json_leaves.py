"""Compares two requests leaf by leaf: every value of a document by its path."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from llm_proxy.matching import large_base64
from llm_proxy.matching.document import KeyDocument

_PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class RequestDifference:
    """One place in which two requests differ."""

    path: str
    """Where: `$.messages[1].content`, or `method`, `path`, `query`, `headers.anthropic-beta`."""
    requested: str
    """The value of the request, as JSON; empty where it has none."""
    stored: str
    """The value of the cassette, as JSON; empty where it has none."""
    parts: tuple[str | int, ...] = ()
    """The steps of a path within a JSON body; none for what stands beside it."""


def json_leaves(document: KeyDocument) -> dict[str, str]:
    """Every value of a document under its path, as JSON; large base64 is told by its hash."""
    flat = {
        "method": document.method,
        "provider": document.provider,
        "path": document.path,
        "query": document.query,
        **{f"headers.{name}": value for name, value in document.headers},
    }
    if document.kind == "text":
        flat["body"] = document.serialized_body().decode("utf-8", "replace")
    else:
        flat |= _flatten("$", document.body)
    return flat


def path_step(name: str) -> str:
    """A member's name as a step of a JSONPath: `.name`, or `['a name']`."""
    if _PLAIN_NAME.fullmatch(name):
        return f".{name}"
    quoted = json.dumps(name, ensure_ascii=False)
    if "'" not in name:
        quoted = "'" + quoted[1:-1].replace('\\"', '"') + "'"
    return f"[{quoted}]"


def _flatten(path: str, value: Any) -> Iterator[tuple[str, str]]:
    match value:
        case dict() if value:
            for name, item in value.items():
                yield from _flatten(path + path_step(name), item)
        case list() if value:
            for index, item in enumerate(value):
                yield from _flatten(f"{path}[{index}]", item)
        case _:
            yield path, json_value_text(value)


def json_value_text(value: Any) -> str:
    """A value as JSON, its large base64 told by its hash."""
    return orjson.dumps(_hash_base64_in(value)).decode()


def _hash_base64_in(value: Any) -> Any:
    match value:
        case dict():
            return {name: _hash_base64_in(item) for name, item in value.items()}
        case list():
            return [_hash_base64_in(item) for item in value]
        case str():
            return large_base64.hash_large_base64(value)
        case _:
            return value


def compare_documents(
    fields: Mapping[str, str], stored: Mapping[str, str]
) -> list[RequestDifference]:
    """Where two requests differ, in the order of the request that was asked."""
    paths: Iterable[str] = dict.fromkeys([*fields, *stored])
    return [
        RequestDifference(path, fields.get(path, ""), stored.get(path, ""))
        for path in paths
        if fields.get(path) != stored.get(path)
    ]
