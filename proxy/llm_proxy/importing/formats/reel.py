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

from llm_proxy.exchange import Headers, Read, header_value
from llm_proxy.importing import fields
from llm_proxy.importing.source import (
    NO_BYTES,
    NO_DATE,
    NO_TIMES,
    PARSED_BODY,
    ForeignFormat,
    NotImportable,
    OpenedFile,
    SourceExchange,
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


def _matches_format(opened: OpenedFile) -> bool:
    return any(
        isinstance(list_item, dict)
        and "schema_version" in list_item
        and isinstance(list_item.get("request"), dict)
        and "fingerprint" in list_item["request"]
        for list_item in _list_items(opened)[:1]
    )


def _list_items(opened: OpenedFile) -> list[Any]:
    match opened.kind:
        case "jsonl":
            lines = opened.document
            is_headed = isinstance(lines[0], dict) and "request" not in lines[0]
            return list(lines[1:] if is_headed else lines)  # the first may say how it was matched
        case "json":
            return [opened.document]
        case _:
            return []


def _parse_exchange(item: Any) -> SourceExchange:
    document = fields.parse_fields(item, "fields")
    details = fields.parse_fields(document.get("request"), "request")
    answered = fields.parse_fields(document.get("response"), "response")
    fields.check_known_fields(details, _REQUEST, "request")
    fields.check_known_fields(answered, _RESPONSE, "response")
    sent = _parse_body(details.get("body"))
    host = _HOSTS.get(str(document.get("provider")), "")
    kept = _JSON if _is_json_body(details.get("body")) else ()
    url = f"//{host}{details.get('path') or '/'}"
    request, named = fields.parse_request(details.get("method"), url, kept, sent)
    headers = tuple(
        pair
        for pair in fields.parse_headers(answered.get("headers"))
        if pair[0].lower() not in _CODING
    )
    chunks = answered.get("stream_chunks")
    if chunks and answered.get("body") is not None:
        raise NotImportable("its response has two bodies, body and stream_chunks")
    if not isinstance(chunks, list | None):
        raise NotImportable("its stream_chunks are no list")
    reads = tuple(_parse_event_reads(chunks or []))
    body = b"".join(read.data for read in reads) if reads else _parse_body(answered.get("body"))
    recorded = fields.parse_time(document.get("ts"))
    lost = NO_BYTES if reads else NO_TIMES
    return SourceExchange(
        request=request,
        host=named,
        status=fields.parse_status(answered.get("status")),
        reason="",
        headers=_with_stream_content_type(headers) if reads else headers,
        body=body,
        reads=reads,
        recorded=recorded,
        losses=(lost, PARSED_BODY, *(() if recorded else (NO_DATE,))),
    )


def _with_stream_content_type(headers: Headers) -> Headers:
    if header_value(headers, "content-type") is not None:
        return headers
    return (*headers, ("content-type", "text/event-stream"))


def _is_json_body(stored: Any) -> bool:
    return stored is not None and not (isinstance(stored, dict) and _RAW in stored)


def _parse_body(stored: Any) -> bytes:
    """A body, of which JSON is kept parsed.  Raises `NotImportable`."""
    match stored:
        case None:
            return b""
        case _ if _is_json_body(stored):
            return _dump_json(stored)
        case _:
            fields.check_known_fields(stored, (_RAW,), "body")
            return fields.parse_base64(stored[_RAW])


def _parse_event_reads(chunks: list[Any]) -> Iterator[Read]:
    """The events of a stream, one a read, each not before the one ahead of it."""
    at = 0.0
    for value in chunks:
        chunk = fields.parse_fields(value, "event in a place of its stream")
        fields.check_known_fields(chunk, _CHUNK, "stream")
        if "data" not in chunk:
            raise NotImportable("an event of its stream has no data")
        at = max(at, fields.parse_number(chunk.get("t_offset_ms")) or 0.0)
        yield Read(at, _encode_event(chunk.get("event"), chunk.get("data")))


def _encode_event(name: Any, data: Any) -> bytes:
    text = data if isinstance(data, str) else _dump_json(data).decode()
    lines = [f"event: {name}"] if isinstance(name, str) and name else []
    lines += [f"data: {line}" for line in text.split("\n")]
    return ("\n".join(lines) + "\n\n").encode("utf-8", "surrogatepass")


def _dump_json(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:
        raise NotImportable("a body was kept parsed, and is no JSON") from None


REEL: Final = ForeignFormat("reel", "reel-vcr", _matches_format, _list_items, _parse_exchange)
