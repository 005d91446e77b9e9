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
from llm_proxy.exporting.format import Exported, Format
from llm_proxy.exporting.har import HAR
from llm_proxy.exporting.sse import SSE
from llm_proxy.exporting.urls import invented_url, url_of, url_through
from llm_proxy.exporting.vcr import VCR

__all__ = ["FORMATS", "Exported", "Format", "invented_url", "url_of", "url_through"]

FORMATS: Final[Mapping[str, Format]] = MappingProxyType(
    {it.name: it for it in (HAR, VCR, SSE, CURL)}
)
