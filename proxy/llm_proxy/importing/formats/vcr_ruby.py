"""Cassettes of VCR for Ruby, and of vcr for R, in YAML or JSON.

http_interactions:
- request: {method: post, uri, body: {encoding, string}, headers: {Name: [value]}}
  response: {status: {code, message}, headers, body: {encoding, string}}
  recorded_at: Mon, 08 Jun 2026 18:46:15 GMT
recorded_with: VCR 6.4.0

A body may be `base64_string`, and with R `raw_gzip`; text is in its `encoding`.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from llm_proxy.importing.formats import bodies
from llm_proxy.importing.formats.vcr import exchange
from llm_proxy.importing.source import Format, Opened


def _claims(opened: Opened) -> bool:
    return opened.kind in ("yaml", "json") and bool(_items(opened))


def _items(opened: Opened) -> list[Any]:
    document = opened.document
    items = document.get("http_interactions") if isinstance(document, dict) else None
    return items if isinstance(items, list) else []


VCR_RUBY: Final = Format(
    "vcr-ruby", "VCR for Ruby or R", _claims, _items, partial(exchange, sent_body=bodies.of)
)
