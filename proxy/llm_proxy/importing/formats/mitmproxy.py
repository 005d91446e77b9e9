"""Flows of mitmproxy, as `-w FILE` writes them: typed netstrings, one object per flow.

{version, type: http, error, request: {method, scheme, host, port, path, headers, content,
 timestamp_start, timestamp_end}, response: {status_code, reason, headers, content, ...}}
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from llm_proxy.exchange import Ending
from llm_proxy.importing import fields, tnetstring
from llm_proxy.importing.source import (
    NO_READ_TIMES,
    ForeignFormat,
    NotImportable,
    ParsedFile,
    SourceExchange,
)

_MESSAGE_FIELDS: Final = frozenset(
    ("method", "scheme", "host", "port", "path", "authority", "http_version", "httpversion",
     "headers", "content", "trailers", "timestamp_start", "timestamp_end", "status_code", "code",
     "reason", "msg", "first_line_format", "form_in", "form_out", "is_replay", "stickycookie",
     "stickyauth")
)  # fmt: skip


def _matches_format(parsed_file: ParsedFile) -> bool:
    return tnetstring.starts_with_tnetstring(parsed_file.decompressed_bytes)


def _list_items(parsed_file: ParsedFile) -> Iterator[Any]:
    return tnetstring.parse_values(parsed_file.decompressed_bytes)


def _parse_exchange(item: Any) -> SourceExchange:
    flow = fields.require_object(item, "fields")
    flow_type = _decode_text(flow.get("type", "http"))
    if flow_type != "http":
        raise NotImportable(f"it is a flow of {flow_type or 'an unknown kind'}, not of HTTP")
    request_fields, response_fields = (
        fields.require_object(flow.get("request"), "request"),
        flow.get("response"),
    )
    error = flow.get("error")
    if not isinstance(response_fields, dict):
        reason = _decode_text(error.get("msg")) if isinstance(error, dict) else "none came"
        raise NotImportable(f"it has no answer: {reason}")
    if flow.get("websocket"):
        raise NotImportable("it is a WebSocket, which no cassette holds")
    fields.reject_unknown_fields(request_fields, _MESSAGE_FIELDS, "request")
    fields.reject_unknown_fields(response_fields, _MESSAGE_FIELDS, "response")
    if request_fields.get("content") is None or response_fields.get("content") is None:
        raise NotImportable("a body was passed through without being kept")
    host = _decode_text(request_fields.get("host"))
    path = _decode_text(request_fields.get("path"))
    request, request_host = fields.build_request_and_host(
        _decode_text(request_fields.get("method")), f"//{_bracket_ipv6(host)}{path}",
        fields.parse_headers(request_fields.get("headers")),
        fields.body_to_bytes(request_fields["content"]),
    )  # fmt: skip
    request_sent_at_s = fields.nonnegative_number(
        request_fields.get("timestamp_end")
    ) or fields.nonnegative_number(request_fields.get("timestamp_start"))
    return SourceExchange(
        request=request,
        host=request_host,
        status=fields.parse_status(response_fields.get("status_code", response_fields.get("code"))),
        reason_phrase=_decode_text(response_fields.get("reason")),
        response_headers=fields.parse_headers(response_fields.get("headers")),
        response_body=fields.body_to_bytes(response_fields["content"]),
        head_at_ms=_ms_since(request_sent_at_s, response_fields.get("timestamp_start")),
        end_at_ms=_ms_since(request_sent_at_s, response_fields.get("timestamp_end")),
        ending=Ending.FIN if isinstance(error, dict) else Ending.CLEAN,
        recorded_at=fields.normalize_timestamp(request_sent_at_s),
        losses=(NO_READ_TIMES,),
    )


def _ms_since(start_s: float | None, timestamp_s: Any) -> float | None:
    """The ms from the end of the request to this time; None where either is unknown."""
    at_s = fields.nonnegative_number(timestamp_s)
    return None if at_s is None or start_s is None else max(0.0, (at_s - start_s) * 1000)


def _bracket_ipv6(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _decode_text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")


MITMPROXY: Final = ForeignFormat(
    "mitmproxy", "mitmproxy", _matches_format, _list_items, _parse_exchange
)
