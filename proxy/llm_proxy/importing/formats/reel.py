"""Tapes of reel-vcr: JSON, one exchange a line.

    {"schema_version": 1, "ts", "provider", "request": {"method", "path", "fingerprint", "body"},
     "response": {"status", "headers", "body"}}

A stream has `stream_chunks` in place of its body: its events, each with the ms at which it came.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType
from typing import Any, Final

import orjson

from llm_proxy.exchange import Headers, Read, header
from llm_proxy.importing import fields
from llm_proxy.importing.source import (
    NO_BYTES,
    NO_DATE,
    NO_TIMES,
    PARSED_BODY,
    Format,
    Opened,
    SourceExchange,
    Unfit,
)

_HOSTS: Final = MappingProxyType(
    {
        "openai": "api.openai.com",
        "anthropic": "api.anthropic.com",
        "gemini": "generativelanguage.googleapis.com",
    }
)
_REQUEST: Final = frozenset(("method", "path", "fingerprint", "body"))
_RESPONSE: Final = frozenset(("status", "headers", "body", "stream_chunks"))
_CHUNK: Final = frozenset(("data", "t_offset_ms", "event"))
_CODING: Final = ("content-encoding", "content-length")
_RAW: Final = "__reel_raw_base64__"
"""The name under which a body stands that is no JSON."""
_JSON: Final = (("content-type", "application/json"),)
"""What stands for the headers of a request, which a tape does not keep."""


def _claims(opened: Opened) -> bool:
    return any(
        isinstance(it, dict)
        and "schema_version" in it
        and isinstance(it.get("request"), dict)
        and "fingerprint" in it["request"]
        for it in _items(opened)[:1]
    )


def _items(opened: Opened) -> list[Any]:
    match opened.kind:
        case "jsonl":
            lines = opened.document
            is_headed = isinstance(lines[0], dict) and "request" not in lines[0]
            return list(lines[1:] if is_headed else lines)  # the first may say how it was matched
        case "json":
            return [opened.document]
        case _:
            return []


def _exchange(item: Any) -> SourceExchange:
    it = fields.fields(item, "fields")
    asked = fields.fields(it.get("request"), "request")
    answered = fields.fields(it.get("response"), "response")
    fields.only(asked, _REQUEST, "request")
    fields.only(answered, _RESPONSE, "response")
    sent = _body(asked.get("body"))
    host = _HOSTS.get(str(it.get("provider")), "")
    kept = _JSON if _is_json(asked.get("body")) else ()
    url = f"//{host}{asked.get('path') or '/'}"
    request, named = fields.request(asked.get("method"), url, kept, sent)
    headers = tuple(
        pair for pair in fields.headers(answered.get("headers")) if pair[0].lower() not in _CODING
    )
    chunks = answered.get("stream_chunks")
    if chunks and answered.get("body") is not None:
        raise Unfit("its response has two bodies, body and stream_chunks")
    if not isinstance(chunks, list | None):
        raise Unfit("its stream_chunks are no list")
    reads = tuple(_reads(chunks or []))
    body = b"".join(read.data for read in reads) if reads else _body(answered.get("body"))
    recorded = fields.moment(it.get("ts"))
    lost = NO_BYTES if reads else NO_TIMES
    return SourceExchange(
        request=request,
        host=named,
        status=fields.status(answered.get("status")),
        reason="",
        headers=_typed(headers) if reads else headers,
        body=body,
        reads=reads,
        recorded=recorded,
        losses=(lost, PARSED_BODY, *(() if recorded else (NO_DATE,))),
    )


def _typed(headers: Headers) -> Headers:
    """The headers of a stream, with what says that it is one."""
    if header(headers, "content-type") is not None:
        return headers
    return (*headers, ("content-type", "text/event-stream"))


def _is_json(stored: Any) -> bool:
    return stored is not None and not (isinstance(stored, dict) and _RAW in stored)


def _body(stored: Any) -> bytes:
    """A body, of which JSON is kept parsed.  Raises `Unfit`."""
    match stored:
        case None:
            return b""
        case _ if _is_json(stored):
            return _dumped(stored)
        case _:
            fields.only(stored, (_RAW,), "body")
            return fields.unbase64(stored[_RAW])


def _reads(chunks: list[Any]) -> Iterator[Read]:
    """The events of a stream, one a read, each not before the one ahead of it."""
    at = 0.0
    for each in chunks:
        chunk = fields.fields(each, "event in a place of its stream")
        fields.only(chunk, _CHUNK, "stream")
        if "data" not in chunk:
            raise Unfit("an event of its stream has no data")
        at = max(at, fields.number(chunk.get("t_offset_ms")) or 0.0)
        yield Read(at, _event(chunk.get("event"), chunk.get("data")))


def _event(name: Any, data: Any) -> bytes:
    text = data if isinstance(data, str) else _dumped(data).decode()
    lines = [f"event: {name}"] if isinstance(name, str) and name else []
    lines += [f"data: {line}" for line in text.split("\n")]
    return ("\n".join(lines) + "\n\n").encode("utf-8", "surrogatepass")


def _dumped(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:
        raise Unfit("a body was kept parsed, and is no JSON") from None


REEL: Final = Format("reel", "reel-vcr", _claims, _items, _exchange)
