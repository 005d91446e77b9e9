"""Bodies as VCR.py, its kin and VCR for Ruby keep them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from llm_proxy.exchange import Headers, header
from llm_proxy.importing import fields
from llm_proxy.importing.source import PARSED_BODY, Unfit

_CODING: Final = ("content-encoding", "content-length")
"""Headers that are of the bytes, where those were written anew."""


@dataclass(frozen=True, slots=True)
class Body:
    """A body, and the headers that fit it."""

    data: bytes
    headers: Headers
    losses: tuple[str, ...] = ()


def of(message: dict[str, Any], headers: Headers) -> Body:
    """The body of a request or a response.  Raises `Unfit`."""
    body = message.get("body")
    if "parsed_body" in message and not body:
        kept = tuple(it for it in headers if it[0].lower() not in _CODING)
        return Body(_written(message["parsed_body"], headers), kept, (PARSED_BODY,))
    if isinstance(body, dict):
        body = _string(body)
    return Body(fields.content(body), headers)


def _string(body: dict[str, Any]) -> Any:
    if (encoded := body.get("base64_string")) is not None:
        return fields.unbase64(encoded)
    if "string" in body or not body or set(body) <= {"encoding"}:
        return body.get("string")
    raise Unfit("a body is in a file of its own, or kept in a way that is not known here")


def _written(parsed: Any, headers: Headers) -> bytes:
    kind = (header(headers, "content-type") or "").partition(";")[0].strip().lower()
    if isinstance(parsed, str) and not kind.endswith("json"):
        return parsed.encode("utf-8", "surrogatepass")
    try:
        return json.dumps(parsed, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError):
        raise Unfit("a body was kept parsed, and is no JSON") from None
