"""Tapes of reel-vcr: JSON Lines, one exchange per line.

    {"schema_version": 1, "ts", "provider", "request": {"method", "path", "fingerprint", "body"},
     "response": {"status", "headers", "body"}}

A stream has `stream_chunks` in place of its body: its events, each with its time in ms.
"""

from __future__ import annotations

from typing import Any, Final

from llm_proxy.exchange import Read, header_value
from llm_proxy.importing import fields
from llm_proxy.importing.source import (
    PARSED_BODY,
    ForeignFormat,
    NotImportable,
    ParsedFile,
    SourceExchange,
    SourceMessage,
)
from llm_proxy.providers import upstream_url

_REQUEST_FIELDS: Final = frozenset(("method", "path", "fingerprint", "body"))
_RESPONSE_FIELDS: Final = frozenset(("status", "headers", "body", "stream_chunks"))
_CHUNK_FIELDS: Final = frozenset(("data", "t_offset_ms", "event"))
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
    exchange = fields.require_object(item, "the exchange")
    request = fields.require_message(exchange, "request", _REQUEST_FIELDS)
    response = fields.require_message(exchange, "response", _RESPONSE_FIELDS)
    stored, request_body = request.get("body"), _parse_body(request.get("body"))
    is_json = stored is not None and not _is_raw_body(stored)
    base_url = upstream_url(str(exchange.get("provider")), {}) or "//"
    headers = fields.without_coding_headers(fields.parse_headers(response.get("headers")))
    chunks = response.get("stream_chunks")
    if chunks and response.get("body") is not None:
        raise NotImportable("the response has two bodies, in body and stream_chunks")
    if not isinstance(chunks, list | None):
        raise NotImportable("stream_chunks is not a list")
    if reads := _parse_event_reads(chunks or []):
        body = b"".join(read.received_bytes for read in reads)
        if header_value(headers, "content-type") is None:
            headers = (*headers, ("content-type", "text/event-stream"))
    else:
        body = _parse_body(response.get("body"))
    return fields.build_exchange(
        request.get("method"),
        f"{base_url}{request.get('path') or '/'}",
        SourceMessage(_JSON_HEADERS if is_json else (), request_body, (PARSED_BODY,)),
        response.get("status"),
        "",
        SourceMessage(headers, body),
        reads=reads,
        recorded_at=fields.normalize_timestamp(exchange.get("ts")),
    )


def _is_raw_body(stored: Any) -> bool:
    return isinstance(stored, dict) and _RAW_BODY_FIELD in stored


def _parse_body(stored: Any) -> bytes:
    """The bytes of a body; JSON is stored parsed.  Raises `NotImportable`."""
    if stored is None:
        return b""
    if not _is_raw_body(stored):
        return fields.dump_json(stored)
    fields.reject_unknown_fields(stored, (_RAW_BODY_FIELD,), "a body")
    return fields.decode_base64_body(stored[_RAW_BODY_FIELD])


def _parse_event_reads(chunks: list[Any]) -> tuple[Read, ...]:
    """The events of a stream, one per read, with monotonic times."""
    reads: list[Read] = []
    at_ms = 0.0
    for value in chunks:
        chunk = fields.require_object(value, "a stream chunk")
        fields.reject_unknown_fields(chunk, _CHUNK_FIELDS, "a stream chunk")
        if "data" not in chunk:
            raise NotImportable("a stream chunk has no data field")
        at_ms = max(at_ms, fields.nonnegative_number(chunk.get("t_offset_ms")) or 0.0)
        name, data = chunk.get("event"), chunk["data"]
        text = data if isinstance(data, str) else fields.dump_json(data).decode()
        lines = [f"event: {name}"] if isinstance(name, str) and name else []
        lines += [f"data: {line}" for line in text.split("\n")]
        event = ("\n".join(lines) + "\n\n").encode("utf-8", "surrogatepass")
        reads.append(Read(at_ms, event))
    return tuple(reads)


REEL: Final = ForeignFormat("reel", "reel-vcr", _matches_format, _list_items, _parse_exchange)
