"""Exports a VCR.py cassette, which plays streams in one piece."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import yaml

from llm_proxy.cassette import Cassette
from llm_proxy.exchange import Headers
from llm_proxy.exporting.format import ExportedExchange, ExportFormat

_VERSION: Final = 1
_DUMPER: Final = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_WIDTH: Final = 2**30
"""Columns: a text stands in as many lines as it has."""


def _write_vcr(exchanges: Sequence[ExportedExchange]) -> bytes:
    document = {
        "interactions": [
            _vcr_interaction(exchange.cassette, exchange.url) for exchange in exchanges
        ],
        "version": _VERSION,
    }
    written: str = yaml.dump(
        document, Dumper=_DUMPER, allow_unicode=True, sort_keys=True, width=_WIDTH
    )
    return written.encode()


def _vcr_interaction(cassette: Cassette, url: str) -> dict[str, Any]:
    request, head = cassette.request, cassette.head
    return {
        "request": {
            "method": request.method,
            "uri": url,
            "headers": _values_by_name(request.headers),
            "body": _body_text(request.body) if request.body else None,
        },
        "response": {
            "status": {"code": head.status, "message": head.reason},
            "headers": _values_by_name(head.headers),
            "body": {"string": _body_text(cassette.body)},
        },
    }


def _values_by_name(headers: Headers) -> dict[str, list[str]]:
    """The values of each name; one that is written in several ways is one."""
    spelling: dict[str, str] = {}
    values: dict[str, list[str]] = {}
    for name, value in headers:
        values.setdefault(spelling.setdefault(name.lower(), name), []).append(value)
    return values


def _body_text(body: bytes) -> str | bytes:
    """A body as text where it is some; bytes are written as base64."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return body
    return body if _is_changed_by_yaml(text) else text


def _is_changed_by_yaml(text: str) -> bool:
    """Whether YAML could give a text back as another: it takes CR for LF, and knows no NUL."""
    return "\r" in text or "\x00" in text or "\ufeff" in text


VCR: Final = ExportFormat("vcr", _write_vcr, takes_many=True, takes_partial=False)
