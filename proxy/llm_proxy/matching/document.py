"""A request in the one form that all requests of its meaning share.

Two requests that mean the same to a provider have one document, whatever SDK sent them: the order
of keys, spaces and the spelling of numbers do not count, nor do the fields that a dialect calls
volatile.  Everything else does: the order of messages, `stream`, tools.  Headers are out, but for
the few that a dialect names; secret query parameters are out.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from operator import itemgetter
from typing import Final, Literal
from urllib.parse import parse_qsl, quote, unquote, urlencode

import orjson

from llm_proxy import dialects, exact_json
from llm_proxy.cassette import StoredRequest
from llm_proxy.dialects import Dialect
from llm_proxy.exchange import Headers, Request, header
from llm_proxy.matching import forms
from llm_proxy.secret_names import is_credential_parameter
from llm_proxy.turns import Json

Kind = Literal["json", "form", "text"]
"""What a body is: a JSON value, the fields of a form, or anything else."""

_DEEPEST: Final = 100
"""Levels of nesting that are canonicalised; a deeper document counts as text."""
_SLASH: Final = re.compile("%2F", re.IGNORECASE)
_SAFE: Final = "/~:@!$&'()*+,;="
_PLAIN_PATH: Final = re.compile(r"[A-Za-z0-9_./~:@!$&'()*+,;=-]*")
"""What has but one spelling."""


@dataclass(frozen=True, slots=True)
class Document:
    """What a key is made from."""

    method: str
    provider: str
    path: str
    """Its percent-encoding in one spelling."""
    query: str
    """Its parameters in one spelling, sorted by name, without credentials."""
    headers: Headers
    """Those that the dialect has enter the key, sorted by name."""
    kind: Kind
    body: Json
    """A JSON value; a text, its invalid bytes as lone surrogates; the fields of a form as a list
    of objects."""
    dialect: Dialect

    def spelled(self) -> bytes:
        """The body as the key has it."""
        if self.kind == "text":
            return str(self.body).encode("utf-8", "surrogateescape")
        return orjson.dumps(self.body, option=orjson.OPT_SORT_KEYS)


def document_of(provider: str, request: StoredRequest) -> Document:
    """The document of a redacted request to a provider."""
    it = request
    dialect = dialects.find(Request(it.method, it.path, it.query, it.headers, b""))
    kind, body = _body(request)
    if kind == "json":
        for path in dialect.volatile:
            _forget(body, path.removeprefix("$.").split("."))
    return Document(
        method=request.method.upper(),
        provider=provider,
        path=normal_path(request.path),
        query=normal_query(request.query),
        headers=_headers(dialect, request.headers),
        kind=kind,
        body=body,
        dialect=dialect,
    )


def normal_path(path: str) -> str:
    """The path with its percent-encoding in one spelling; an encoded slash stays one."""
    if _PLAIN_PATH.fullmatch(path):
        return path
    return "%2F".join(
        quote(unquote(part, errors="surrogateescape"), safe=_SAFE, errors="surrogateescape")
        for part in _SLASH.split(path)
    )


def normal_query(query: str) -> str:
    """The query's parameters in one spelling, sorted by name; repeats keep their order.

    Credentials are left out: a client may as well send its key in a header.  What else is called
    like a secret counts by its name, its value being redacted.
    """
    if not query:
        return ""
    pairs = parse_qsl(query, keep_blank_values=True, errors="surrogateescape")
    open_ = [pair for pair in pairs if not is_credential_parameter(pair[0])]
    return urlencode(sorted(open_, key=itemgetter(0)), errors="surrogateescape")


def _headers(dialect: Dialect, headers: Headers) -> Headers:
    """The headers that enter the key, each once; the words of a list are sorted."""
    kept: list[tuple[str, str]] = []
    for name in sorted(dialect.key_headers):
        values = [value for key, value in headers if key.lower() == name]
        words = {word.strip() for value in values for word in value.split(",")} - {""}
        if words:
            kept.append((name, ",".join(sorted(words))))
    return tuple(kept)


def _body(request: StoredRequest) -> tuple[Kind, Json]:
    if (parsed := exact_json.exact(request.body)) is not None:
        with suppress(ValueError):  # nested too deep
            return "json", _normal(parsed[0], _DEEPEST)
    content_type = header(request.headers, "content-type") or ""
    fields = forms.fields(content_type, request.body)
    if fields is not None:
        return "form", fields
    return "text", request.body.decode("utf-8", "surrogateescape")


def _normal(value: Json, depth: int) -> Json:
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


def _forget(value: Json, path: list[str]) -> None:
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
