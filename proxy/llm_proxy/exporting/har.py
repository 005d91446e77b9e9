"""HAR 1.2, as browsers and traffic tools read it; `_llm_proxy` holds what it has no place for."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import parse_qsl

import orjson

from llm_proxy.cassette import Cassette
from llm_proxy.exchange import Headers, header
from llm_proxy.exporting.format import Exported, Format
from llm_proxy.outcome import outcome
from llm_proxy.version import __version__

_UNKNOWN: Final = -1
"""What HAR has for a size that nobody knows."""


def _write(exchanges: Sequence[Exported]) -> bytes:
    log = {
        "version": "1.2",
        "creator": {"name": "llm-proxy", "version": __version__},
        "entries": [_entry(it.cassette, it.url) for it in exchanges],
    }
    return orjson.dumps({"log": log}, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _entry(it: Cassette, url: str) -> dict[str, Any]:
    found = outcome(it)
    return {
        "startedDateTime": it.meta.recorded,
        "time": it.end.at,
        "request": _request(it, url),
        "response": _response(it),
        "cache": {},
        "timings": {"send": 0, "wait": it.head_at, "receive": it.end.at - it.head_at},
        **({} if found.complete else {"comment": str(found)}),
        "_llm_proxy": {
            "session": it.meta.session,
            "provider": it.meta.provider,
            "dialect": it.meta.dialect,
            "model": it.meta.model,
            "key": it.meta.key,
            "ending": it.end.ending.value,
            "reads": [{"at": read.at, "bytes": len(read.data)} for read in it.reads],
        },
    }


def _request(it: Cassette, url: str) -> dict[str, Any]:
    request = it.request
    posted: dict[str, Any] = {}
    if request.body:
        mime = header(request.headers, "content-type") or "application/octet-stream"
        text, encoding = _text(request.body)
        # HAR knows no coding of what is sent; mitmproxy and others name it so.
        coded = {"_encoding": encoding} if encoding else {}
        posted = {"postData": {"mimeType": mime, "text": text, **coded}}
    pairs = parse_qsl(request.query, keep_blank_values=True)
    return {
        "method": request.method,
        "url": url,
        "httpVersion": "HTTP/1.1",
        "cookies": [],
        "headers": _pairs(request.headers),
        "queryString": _pairs(tuple(pairs)),
        **posted,
        "headersSize": _UNKNOWN,
        "bodySize": len(request.body),
    }


def _response(it: Cassette) -> dict[str, Any]:
    head = it.head
    text, encoding = _text(it.body)
    return {
        "status": head.status,
        "statusText": head.reason,
        "httpVersion": "HTTP/1.1",
        "cookies": [],
        "headers": _pairs(head.headers),
        "content": {
            "size": it.end.size,
            "mimeType": header(head.headers, "content-type") or "",
            "text": text,
            **({"encoding": encoding} if encoding else {}),
        },
        "redirectURL": header(head.headers, "location") or "",
        "headersSize": _UNKNOWN,
        "bodySize": it.end.size,
    }


def _pairs(headers: Headers) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in headers]


def _text(body: bytes) -> tuple[str, str]:
    """A body as text, and the encoding that it needs for that."""
    try:
        return body.decode(), ""
    except UnicodeDecodeError:
        return base64.b64encode(body).decode(), "base64"


HAR: Final = Format("har", _write, of_many=True)
