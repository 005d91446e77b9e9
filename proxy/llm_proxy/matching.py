"""Keys, and why a request missed.

The key of a request is a hash of its method, provider, path, query and the canonical form of
its redacted body.  Two requests that mean the same to a provider have one key, whatever SDK
sent them: the order of keys, spaces and the spelling of numbers do not count, nor do the fields
that a dialect calls volatile.  Everything else does: the order of messages, `stream`, tools.
Headers are out.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final
from urllib.parse import parse_qsl, quote, unquote, urlencode

import orjson

from llm_proxy import dialects
from llm_proxy.cassette import StoredRequest
from llm_proxy.exchange import Request, header

KEY_RULES: Final = 1
"""The version of the rules in this module, stored in every cassette."""

_DEEPEST: Final = 100
"""Levels of nesting that are canonicalised; a deeper document counts as text."""
_BOUNDARY: Final = re.compile(r'boundary="?([^";,]+)', re.IGNORECASE)
_SLASH: Final = re.compile("%2F", re.IGNORECASE)
_SAFE: Final = "/~:@!$&'()*+,;="


def key(provider: str, request: StoredRequest) -> str:
    """The key under which this request finds its takes: 64 hexadecimal digits."""
    digest = hashlib.sha256()
    for part in (
        f"llm-proxy key {KEY_RULES}",
        request.method.upper(),
        provider,
        normal_path(request.path),
        normal_query(request.query),
    ):
        digest.update(part.encode() + b"\n")
    digest.update(canonical_body(request))
    return digest.hexdigest()


def normal_path(path: str) -> str:
    """The path with its percent-encoding in one spelling; an encoded slash stays one."""
    return "%2F".join(
        quote(unquote(part, errors="surrogateescape"), safe=_SAFE, errors="surrogateescape")
        for part in _SLASH.split(path)
    )


def normal_query(query: str) -> str:
    """The query's parameters in one spelling, sorted by name; repeats keep their order."""
    pairs = parse_qsl(query, keep_blank_values=True, errors="surrogateescape")
    return urlencode(sorted(pairs, key=itemgetter(0)), errors="surrogateescape")


def canonical_body(request: StoredRequest) -> bytes:
    """The body in the one form that all bodies of its meaning share."""
    document = _document(request)
    if document is not None:
        return orjson.dumps(document[0], option=orjson.OPT_SORT_KEYS)
    boundary = _BOUNDARY.search(header(request.headers, "content-type") or "")
    if boundary is not None:  # a multipart body: its boundary is random
        return request.body.replace(boundary[1].encode(), b"boundary")
    return request.body


def _document(request: StoredRequest) -> tuple[Any] | None:
    """The JSON value of a body without what is volatile, its numbers normalised.

    None where it is not JSON.
    """
    try:
        value = _normal(orjson.loads(request.body), _DEEPEST)
    except ValueError:
        return None
    it = request
    dialect = dialects.find(Request(it.method, it.path, it.query, it.headers, b""))
    for path in dialect.volatile:
        _forget(value, path.removeprefix("$.").split("."))
    return (value,)


def _forget(value: Any, path: list[str]) -> None:
    """Take what stands at this path out of a value; `name[*]` is each item of a list.

    An item that says nothing beside it but its type is a reference, and keeps it.
    """
    name, *rest = path
    if not isinstance(value, dict):
        return
    if not rest:
        value.pop(name, None)
    elif name.endswith("[*]"):
        items = value.get(name.removesuffix("[*]"))
        for item in items if isinstance(items, list) else ():
            if isinstance(item, dict) and item.keys() - {*rest, "type"}:
                _forget(item, rest)
    else:
        _forget(value.get(name), rest)


def _normal(value: Any, depth: int) -> Any:
    """`value` with every number in one spelling: 1.0 is 1."""
    if depth == 0:
        raise ValueError("nested too deep")
    match value:
        case dict():
            return {name: _normal(item, depth - 1) for name, item in value.items()}
        case list():
            return [_normal(item, depth - 1) for item in value]
        case float() if value.is_integer() and abs(value) < 2**53:
            return int(value)
        case _:
            return value


@dataclass(frozen=True, slots=True)
class Difference:
    """One place in which two requests differ."""

    path: str
    """Where: `$.messages[1].content`, or `method`, `path`, `query`."""
    asked: str
    """The value of the request, as JSON; empty where it has none."""
    stored: str
    """The value of the cassette, as JSON; empty where it has none."""


def leaves(provider: str, request: StoredRequest) -> dict[str, str]:
    """Every value of a request under its path: what nearness and differences are made of."""
    flat = {
        "method": request.method.upper(),
        "provider": provider,
        "path": normal_path(request.path),
        "query": normal_query(request.query),
    }
    document = _document(request)
    if document is None:
        flat["body"] = canonical_body(request).decode("utf-8", "replace")
    else:
        flat |= _flat("$", document[0])
    return flat


def _flat(path: str, value: Any) -> Iterator[tuple[str, str]]:
    match value:
        case dict() if value:
            for name, item in value.items():
                plain = re.fullmatch(r"[A-Za-z_]\w*", name)
                yield from _flat(f"{path}.{name}" if plain else f"{path}[{name!r}]", item)
        case list() if value:
            for index, item in enumerate(value):
                yield from _flat(f"{path}[{index}]", item)
        case _:
            yield path, orjson.dumps(value).decode()


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
