"""Flows of mitmproxy, as `-w FILE` writes them: typed netstrings, one object a flow.

{version, type: http, error, request: {method, scheme, host, port, path, headers, content,
 timestamp_start, timestamp_end}, response: {status_code, reason, headers, content, ...}}
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from llm_proxy.exchange import Ending
from llm_proxy.importing import fields, tnetstring
from llm_proxy.importing.source import (
    NO_READS,
    ForeignFormat,
    NotImportable,
    OpenedFile,
    SourceExchange,
)

_MESSAGE: Final = frozenset(
    ("method", "scheme", "host", "port", "path", "authority", "http_version", "httpversion",
     "headers", "content", "trailers", "timestamp_start", "timestamp_end", "status_code", "code",
     "reason", "msg", "first_line_format", "form_in", "form_out", "is_replay", "stickycookie",
     "stickyauth")
)  # fmt: skip


def _matches_format(opened: OpenedFile) -> bool:
    return tnetstring.begins_tnetstring(opened.data)


def _list_items(opened: OpenedFile) -> Iterator[Any]:
    return tnetstring.parse_values(opened.data)


def _parse_exchange(item: Any) -> SourceExchange:
    document = fields.parse_fields(item, "fields")
    kind = _decode_text(document.get("type", "http"))
    if kind != "http":
        raise NotImportable(f"it is a flow of {kind or 'an unknown kind'}, not of HTTP")
    details, answered = (
        fields.parse_fields(document.get("request"), "request"),
        document.get("response"),
    )
    error = document.get("error")
    if not isinstance(answered, dict):
        why = _decode_text(error.get("msg")) if isinstance(error, dict) else "none came"
        raise NotImportable(f"it has no answer: {why}")
    if document.get("websocket"):
        raise NotImportable("it is a WebSocket, which no cassette holds")
    fields.check_known_fields(details, _MESSAGE, "request")
    fields.check_known_fields(answered, _MESSAGE, "response")
    if details.get("content") is None or answered.get("content") is None:
        raise NotImportable("a body was passed through without being kept")
    host = _decode_text(details.get("host"))
    path = _decode_text(details.get("path"))
    request, named = fields.parse_request(
        _decode_text(details.get("method")), f"//{_bracket_ipv6(host)}{path}",
        fields.parse_headers(details.get("headers")), fields.parse_content(details["content"]),
    )  # fmt: skip
    begun = fields.parse_number(details.get("timestamp_end")) or fields.parse_number(
        details.get("timestamp_start")
    )
    return SourceExchange(
        request=request,
        host=named,
        status=fields.parse_status(answered.get("status_code", answered.get("code"))),
        reason=_decode_text(answered.get("reason")),
        headers=fields.parse_headers(answered.get("headers")),
        body=fields.parse_content(answered["content"]),
        head_at=_ms_since(begun, answered.get("timestamp_start")),
        end_at=_ms_since(begun, answered.get("timestamp_end")),
        ending=Ending.FIN if isinstance(error, dict) else Ending.CLEAN,
        recorded=fields.parse_time(begun),
        losses=(NO_READS,),
    )


def _ms_since(begun: float | None, then: Any) -> float | None:
    """ms from the moment that the request was sent in full."""
    at = fields.parse_number(then)
    return None if at is None or begun is None else max(0.0, (at - begun) * 1000)


def _bracket_ipv6(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _decode_text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")


MITMPROXY: Final = ForeignFormat(
    "mitmproxy", "mitmproxy", _matches_format, _list_items, _parse_exchange
)
