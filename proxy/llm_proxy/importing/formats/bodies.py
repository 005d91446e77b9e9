"""Bodies as VCR.py, its kin and VCR for Ruby keep them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import orjson

from llm_proxy.exchange import Headers, header
from llm_proxy.importing import fields
from llm_proxy.importing.source import PARSED_BODY, Loss, Unfit

_OF_A_BODY: Final = frozenset(("string", "base64_string", "encoding", "file"))
"""What stands in an object that holds a body; one with other names is a body, parsed."""
_CODING: Final = ("content-encoding", "content-length")
"""Headers that are of the bytes, where those were written anew."""


@dataclass(frozen=True, slots=True)
class Body:
    """A body, and the headers that fit it."""

    data: bytes
    headers: Headers
    losses: tuple[Loss, ...] = ()


def of(message: dict[str, Any], headers: Headers) -> Body:
    """The body of a request or a response.  Raises `Unfit`."""
    body = message.get("body")
    if "parsed_body" in message and not body:
        return _anew(message["parsed_body"], headers)
    if isinstance(body, dict):
        if body.keys() - _OF_A_BODY:
            return _anew(body, headers)
        body = _string(body)
    return Body(fields.content(body), headers)


def _string(body: dict[str, Any]) -> Any:
    if body.get("file"):
        raise Unfit("a body is in a file of its own")
    encoded = body.get("base64_string")
    return body.get("string") if encoded is None else fields.unbase64(encoded)


def _anew(parsed: Any, headers: Headers) -> Body:
    kept = tuple(it for it in headers if it[0].lower() not in _CODING)
    return Body(_written(parsed, headers), kept, (PARSED_BODY,))


def _written(parsed: Any, headers: Headers) -> bytes:
    kind = (header(headers, "content-type") or "").partition(";")[0].strip().lower()
    if isinstance(parsed, str) and not kind.endswith("json"):
        return parsed.encode("utf-8", "surrogatepass")
    try:
        return orjson.dumps(parsed)
    except TypeError:
        raise Unfit("a body was kept parsed, and is no JSON") from None
