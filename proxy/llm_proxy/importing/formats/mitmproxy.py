"""Flows of mitmproxy, as `-w FILE` writes them: typed netstrings, one object a flow.

{version, type: http, error, request: {method, scheme, host, port, path, headers, content,
 timestamp_start, timestamp_end}, response: {status_code, reason, headers, content, ...}}
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from llm_proxy.exchange import Ending
from llm_proxy.importing import fields, tnetstring
from llm_proxy.importing.source import NO_READS, Format, Opened, SourceExchange, Unfit

_MESSAGE: Final = frozenset(
    ("method", "scheme", "host", "port", "path", "authority", "http_version", "httpversion",
     "headers", "content", "trailers", "timestamp_start", "timestamp_end", "status_code", "code",
     "reason", "msg", "first_line_format", "form_in", "form_out", "is_replay", "stickycookie",
     "stickyauth")
)  # fmt: skip


def _claims(opened: Opened) -> bool:
    return tnetstring.begins(opened.data)


def _items(opened: Opened) -> Iterator[Any]:
    return tnetstring.values(opened.data)


def _exchange(item: Any) -> SourceExchange:
    it = fields.fields(item, "fields")
    kind = _text(it.get("type", "http"))
    if kind != "http":
        raise Unfit(f"it is a flow of {kind or 'an unknown kind'}, not of HTTP")
    asked, answered = fields.fields(it.get("request"), "request"), it.get("response")
    error = it.get("error")
    if not isinstance(answered, dict):
        why = _text(error.get("msg")) if isinstance(error, dict) else "none came"
        raise Unfit(f"it has no answer: {why}")
    if it.get("websocket"):
        raise Unfit("it is a WebSocket, which no cassette holds")
    fields.only(asked, _MESSAGE, "request")
    fields.only(answered, _MESSAGE, "response")
    if asked.get("content") is None or answered.get("content") is None:
        raise Unfit("a body was passed through without being kept")
    host = _text(asked.get("host"))
    path = _text(asked.get("path"))
    request, named = fields.request(
        _text(asked.get("method")), f"//{_bracketed(host)}{path}",
        fields.headers(asked.get("headers")), fields.content(asked["content"]),
    )  # fmt: skip
    begun = fields.number(asked.get("timestamp_end")) or fields.number(asked.get("timestamp_start"))
    return SourceExchange(
        request=request,
        host=named,
        status=fields.status(answered.get("status_code", answered.get("code"))),
        reason=_text(answered.get("reason")),
        headers=fields.headers(answered.get("headers")),
        body=fields.content(answered["content"]),
        head_at=_since(begun, answered.get("timestamp_start")),
        end_at=_since(begun, answered.get("timestamp_end")),
        ending=Ending.FIN if isinstance(error, dict) else Ending.CLEAN,
        recorded=fields.moment(begun),
        losses=(NO_READS,),
    )


def _since(begun: float | None, then: Any) -> float | None:
    """ms from the moment that the request was sent in full."""
    at = fields.number(then)
    return None if at is None or begun is None else max(0.0, (at - begun) * 1000)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")


MITMPROXY: Final = Format("mitmproxy", "mitmproxy", _claims, _items, _exchange)
