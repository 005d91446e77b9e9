"""Recorded exchanges in the formats of other tools.

    format   what a format is, and what it is given
    urls     where an exchange was, or could have been
    har, vcr, sse, curl   one format each

What a format has no place for is left out: only a HAR keeps times, and only ours reads them again.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from llm_proxy.exporting.curl import CURL
from llm_proxy.exporting.format import ExportedExchange, ExportFormat
from llm_proxy.exporting.har import HAR
from llm_proxy.exporting.sse import SSE
from llm_proxy.exporting.urls import exchange_url, placeholder_url, url_through_proxy
from llm_proxy.exporting.vcr import VCR

__all__ = [
    "FORMATS",
    "ExportFormat",
    "ExportedExchange",
    "exchange_url",
    "placeholder_url",
    "url_through_proxy",
]

FORMATS: Final[Mapping[str, ExportFormat]] = MappingProxyType(
    {export_format.name: export_format for export_format in (HAR, VCR, SSE, CURL)}
)
