"""Cassettes of VCR for Ruby, and of vcr for R, in YAML or JSON.

http_interactions:
- request: {method: post, uri, body: {encoding, string}, headers: {Name: [value]}}
  response: {status: {code, message}, headers, body: {encoding, string}}
  recorded_at: Mon, 08 Jun 2026 18:46:15 GMT
recorded_with: VCR 6.4.0
"""

from __future__ import annotations

from typing import Any, Final

from llm_proxy.importing.formats.vcr import VCR
from llm_proxy.importing.source import Format, Opened


def _claims(opened: Opened) -> bool:
    return opened.kind in ("yaml", "json") and bool(_items(opened))


def _items(opened: Opened) -> list[Any]:
    document = opened.document
    items = document.get("http_interactions") if isinstance(document, dict) else None
    return items if isinstance(items, list) else []


VCR_RUBY: Final = Format("vcr-ruby", "VCR for Ruby or R", _claims, _items, VCR.exchange)
