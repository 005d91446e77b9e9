"""Normalizes a request into the document that its key is made from.

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
from llm_proxy.exchange import Headers, Request, header_value
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
class KeyDocument:
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

    def serialized_body(self) -> bytes:
        """The body as the key has it."""
        if self.kind == "text":
            return str(self.body).encode("utf-8", "surrogateescape")
        return orjson.dumps(self.body, option=orjson.OPT_SORT_KEYS)


def key_document(provider: str, request: StoredRequest) -> KeyDocument:
    """The document of a redacted request to a provider."""
    stored_request = request
    dialect = dialects.find_dialect(
        Request(
            stored_request.method,
            stored_request.path,
            stored_request.query,
            stored_request.headers,
            b"",
        )
    )
    kind, body = _key_body(request)
    if kind == "json":
        for path in dialect.volatile_paths:
            _remove_at_path(body, path.removeprefix("$.").split("."))
    return KeyDocument(
        method=request.method.upper(),
        provider=provider,
        path=normalize_path(request.path),
        query=normalize_query(request.query),
        headers=_key_headers(dialect, request.headers),
        kind=kind,
        body=body,
        dialect=dialect,
    )


def normalize_path(path: str) -> str:
    """The path with its percent-encoding in one spelling; an encoded slash stays one."""
    if _PLAIN_PATH.fullmatch(path):
        return path
    return "%2F".join(
        quote(unquote(part, errors="surrogateescape"), safe=_SAFE, errors="surrogateescape")
        for part in _SLASH.split(path)
    )


def normalize_query(query: str) -> str:
    """The query's parameters in one spelling, sorted by name; repeats keep their order.

    Credentials are left out: a client may as well send its key in a header.  What else is called
    like a secret counts by its name, its value being redacted.
    """
    if not query:
        return ""
    pairs = parse_qsl(query, keep_blank_values=True, errors="surrogateescape")
    open_ = [pair for pair in pairs if not is_credential_parameter(pair[0])]
    return urlencode(sorted(open_, key=itemgetter(0)), errors="surrogateescape")


def _key_headers(dialect: Dialect, headers: Headers) -> Headers:
    """The headers that enter the key, each once; the words of a list are sorted."""
    kept: list[tuple[str, str]] = []
    for name in sorted(dialect.key_headers):
        values = [value for key, value in headers if key.lower() == name]
        words = {word.strip() for value in values for word in value.split(",")} - {""}
        if words:
            kept.append((name, ",".join(sorted(words))))
    return tuple(kept)


def _key_body(request: StoredRequest) -> tuple[Kind, Json]:
    if (parsed := exact_json.parse_exact(request.body)) is not None:
        with suppress(ValueError):  # nested too deep
            return "json", _normalize_numbers(parsed[0], _DEEPEST)
    content_type = header_value(request.headers, "content-type") or ""
    fields = forms.parse_form(content_type, request.body)
    if fields is not None:
        return "form", fields
    return "text", request.body.decode("utf-8", "surrogateescape")


def _normalize_numbers(value: Json, depth: int) -> Json:
    """`value` with every number in one spelling: 1.0 is 1."""
    if depth == 0:
        raise ValueError("nested too deep")
    match value:
        case dict():
            return {name: _normalize_numbers(item, depth - 1) for name, item in value.items()}
        case list():
            return [_normalize_numbers(item, depth - 1) for item in value]
        case float() if value.is_integer() and abs(value) < 2**53:
            return int(value)
        case _:
            return value


def _remove_at_path(value: Json, path: list[str]) -> None:
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
                _remove_at_path(item, rest)
    else:
        _remove_at_path(value.get(name), rest)
