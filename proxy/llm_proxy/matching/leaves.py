"""How two requests differ: every value of a document under its path."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from llm_proxy.matching.document import Document

_PLAIN_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_BASE64: Final = re.compile(
    r"(?:data:[\w.+-]+/[\w.+-]+(?:;[\w=.+-]+)*;base64,)?([A-Za-z0-9+/_-]{256,})={0,2}"
)
"""A long run of what base64 is made of, as images and sounds are sent."""
_KINDS: Final = tuple(map(re.compile, ("[A-Z]", "[a-z]", "[0-9]")))
"""Of all of these there are some in any base64 of that length."""


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
    """A member's name as a step of a path: `.name`, or `['a name']`."""
    return f".{name}" if _PLAIN_NAME.fullmatch(name) else f"[{name!r}]"


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
        case str() if (encoded := _encoded(value)) is not None:
            return _by_hash(encoded, value)
        case _:
            return value


def _encoded(value: str) -> str | None:
    """The base64 that a text is, or a URL of data holds; None where it is none, or short."""
    match = _BASE64.fullmatch(value)
    is_some = match is not None and all(kind.search(match[1]) for kind in _KINDS)
    return match[1] if match is not None and is_some else None


def _by_hash(encoded: str, value: str) -> str:
    """What is told of large base64."""
    digest = hashlib.sha256(value.encode()).hexdigest()[:16]
    return f"base64 of {len(encoded) * 3 // 4} bytes, sha256 {digest}"


def nearness(one: Mapping[str, str], other: Mapping[str, str]) -> float:
    """How alike two requests are, from 0 to 1: the share of (path, value) pairs they share."""
    shared = len(one.items() & other.items())
    return shared / (len(one) + len(other) - shared)


def differences(asked: Mapping[str, str], stored: Mapping[str, str]) -> list[Difference]:
    """Where two requests differ, in the order of the request that was asked."""
    paths: Iterable[str] = dict.fromkeys([*asked, *stored])
    return [
        Difference(path, asked.get(path, ""), stored.get(path, ""))
        for path in paths
        if asked.get(path) != stored.get(path)
    ]
