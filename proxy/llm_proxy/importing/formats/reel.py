"""Tapes of reel-vcr: JSON Lines, one exchange per line.

    {"schema_version": 1, "ts", "provider", "request": {"method", "path", "fingerprint", "body"},
     "response": {"status", "headers", "body"}}

A stream has `stream_chunks` in place of its body: its events, each with its time in ms.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType
from typing import Any, Final

import orjson

from llm_proxy.exchange import Headers, Read, header_value
from llm_proxy.importing import fields
from llm_proxy.importing.source import (
    NO_DATE,
    NO_EVENT_BYTES,
    NO_TIMES,
    PARSED_BODY,
    ForeignFormat,
    NotImportable,
    ParsedFile,
    SourceExchange,
)

_HOST_BY_PROVIDER: Final = MappingProxyType(
    {
        "openai": "api.openai.com",
        "anthropic": "api.anthropic.com",
        "gemini": "generativelanguage.googleapis.com",
    }
)
_REQUEST_FIELDS: Final = frozenset(("method", "path", "fingerprint", "body"))
_RESPONSE_FIELDS: Final = frozenset(("status", "headers", "body", "stream_chunks"))
_CHUNK_FIELDS: Final = frozenset(("data", "t_offset_ms", "event"))
_CODING_HEADERS: Final = ("content-encoding", "content-length")
_RAW_BODY_FIELD: Final = "__reel_raw_base64__"
"""The field of a body that is not JSON."""
_JSON_HEADERS: Final = (("content-type", "application/json"),)
"""Stand-in for request headers, which a tape does not store."""


def _matches_format(parsed_file: ParsedFile) -> bool:
    return any(
        isinstance(line, dict)
        and "schema_version" in line
        and isinstance(line.get("request"), dict)
        and "fingerprint" in line["request"]
        for line in _list_items(parsed_file)[:1]
    )


def _list_items(parsed_file: ParsedFile) -> list[Any]:
    match parsed_file.file_type:
        case "jsonl":
            lines = parsed_file.document
            has_header_line = isinstance(lines[0], dict) and "request" not in lines[0]
            return list(lines[1:] if has_header_line else lines)  # it may hold match settings
        case "json":
            return [parsed_file.document]
        case _:
            return []


def _parse_exchange(item: Any) -> SourceExchange:
    exchange = fields.require_object(item, "fields")
    request_fields = fields.require_object(exchange.get("request"), "request")
    response_fields = fields.require_object(exchange.get("response"), "response")
    fields.reject_unknown_fields(request_fields, _REQUEST_FIELDS, "request")
    fields.reject_unknown_fields(response_fields, _RESPONSE_FIELDS, "response")
    request_body = _parse_body(request_fields.get("body"))
    host = _HOST_BY_PROVIDER.get(str(exchange.get("provider")), "")
    request_headers = _JSON_HEADERS if _is_json_body(request_fields.get("body")) else ()
    url = f"//{host}{request_fields.get('path') or '/'}"
    request, url_host = fields.build_request_and_host(
        request_fields.get("method"), url, request_headers, request_body
    )
    headers = tuple(
        pair
        for pair in fields.parse_headers(response_fields.get("headers"))
        if pair[0].lower() not in _CODING_HEADERS
    )
    chunks = response_fields.get("stream_chunks")
    if chunks and response_fields.get("body") is not None:
        raise NotImportable("its response has two bodies, body and stream_chunks")
    if not isinstance(chunks, list | None):
        raise NotImportable("its stream_chunks are no list")
    reads = tuple(_parse_event_reads(chunks or []))
    body = (
        b"".join(read.received_bytes for read in reads)
        if reads
        else _parse_body(response_fields.get("body"))
    )
    recorded = fields.normalize_timestamp(exchange.get("ts"))
    time_loss = NO_EVENT_BYTES if reads else NO_TIMES
    return SourceExchange(
        request=request,
        host=url_host,
        status=fields.parse_status(response_fields.get("status")),
        reason_phrase="",
        response_headers=_with_stream_content_type(headers) if reads else headers,
        response_body=body,
        reads=reads,
        recorded_at=recorded,
        losses=(time_loss, PARSED_BODY, *(() if recorded else (NO_DATE,))),
    )


def _with_stream_content_type(headers: Headers) -> Headers:
    if header_value(headers, "content-type") is not None:
        return headers
    return (*headers, ("content-type", "text/event-stream"))


def _is_json_body(stored: Any) -> bool:
    return stored is not None and not (isinstance(stored, dict) and _RAW_BODY_FIELD in stored)


def _parse_body(stored: Any) -> bytes:
    """The bytes of a body; JSON is stored parsed.  Raises `NotImportable`."""
    match stored:
        case None:
            return b""
        case _ if _is_json_body(stored):
            return _dump_json(stored)
        case _:
            fields.reject_unknown_fields(stored, (_RAW_BODY_FIELD,), "body")
            return fields.decode_base64_body(stored[_RAW_BODY_FIELD])


def _parse_event_reads(chunks: list[Any]) -> Iterator[Read]:
    """The events of a stream, one per read, with monotonic times."""
    at_ms = 0.0
    for value in chunks:
        chunk = fields.require_object(value, "event in a place of its stream")
        fields.reject_unknown_fields(chunk, _CHUNK_FIELDS, "stream")
        if "data" not in chunk:
            raise NotImportable("an event of its stream has no data")
        at_ms = max(at_ms, fields.nonnegative_number(chunk.get("t_offset_ms")) or 0.0)
        yield Read(at_ms, _encode_event(chunk.get("event"), chunk.get("data")))


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
