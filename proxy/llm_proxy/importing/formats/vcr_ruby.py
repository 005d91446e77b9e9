"""Cassettes of VCR for Ruby, and of vcr for R, in YAML or JSON.

http_interactions:
- request: {method: post, uri, body: {encoding, string}, headers: {Name: [value]}}
  response: {status: {code, message}, headers, body: {encoding, string}}
  recorded_at: Mon, 08 Jun 2026 18:46:15 GMT
recorded_with: VCR 6.4.0

A body may be `base64_string`, with R also `raw_gzip`; text has the charset `encoding`.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from llm_proxy.importing.formats import bodies
from llm_proxy.importing.formats.vcr import parse_vcr_exchange
from llm_proxy.importing.source import ForeignFormat, ParsedFile, list_member


def _matches_format(parsed_file: ParsedFile) -> bool:
    return parsed_file.file_type in ("yaml", "json") and bool(_list_items(parsed_file))


def _list_items(parsed_file: ParsedFile) -> list[Any]:
    return list_member(parsed_file.document, "http_interactions")


VCR_RUBY: Final = ForeignFormat(
    "vcr-ruby",
    "VCR for Ruby or R",
    _matches_format,
    _list_items,
    partial(parse_vcr_exchange, parse_request=bodies.parse_body),
)
