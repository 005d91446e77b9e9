"""Exports a VCR.py cassette; VCR.py replays streams in one piece."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import yaml

from llm_proxy.cassette import Cassette
from llm_proxy.exchange import Headers
from llm_proxy.exporting.format import ExportedExchange, ExportFormat

_VERSION: Final = 1
_DUMPER: Final = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_MAX_COLUMNS: Final = 2**30
"""Wide enough that YAML never folds a line."""


def _serialize_vcr(exchanges: Sequence[ExportedExchange]) -> bytes:
    document = {
        "interactions": [
            _vcr_interaction(exchange.cassette, exchange.url) for exchange in exchanges
        ],
        "version": _VERSION,
    }
    yaml_text: str = yaml.dump(
        document, Dumper=_DUMPER, allow_unicode=True, sort_keys=True, width=_MAX_COLUMNS
    )
    return yaml_text.encode()


def _vcr_interaction(cassette: Cassette, url: str) -> dict[str, Any]:
    request, head = cassette.request, cassette.response_head
    return {
        "request": {
            "method": request.method,
            "uri": url,
            "headers": _header_values_by_name(request.headers),
            "body": _text_or_bytes(request.body) if request.body else None,
        },
        "response": {
            "status": {"code": head.status, "message": head.reason},
            "headers": _header_values_by_name(head.headers),
            "body": {"string": _text_or_bytes(cassette.response_body)},
        },
    }


def _header_values_by_name(headers: Headers) -> dict[str, list[str]]:
    """The values of each header; names that differ only in case are one, as first spelled."""
    first_spellings: dict[str, str] = {}
    values: dict[str, list[str]] = {}
    for name, value in headers:
        values.setdefault(first_spellings.setdefault(name.lower(), name), []).append(value)
    return values


def _text_or_bytes(body: bytes) -> str | bytes:
    """A body as text if YAML preserves it, else as bytes, which YAML writes as base64."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return body
    # YAML turns CR into LF, and has no NUL.
    return body if any(character in text for character in "\r\x00\ufeff") else text


VCR: Final = ExportFormat(
    "vcr", _serialize_vcr, allows_several=True, allows_incomplete_response=False
)
