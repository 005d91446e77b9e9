"""Exports recorded exchanges in the formats of other tools.

    format   the definition of a format, its input, and the URLs of stored requests
    har, vcr, sse, curl   one format each

What a format cannot represent is left out.  Only HAR has times; those of single reads are in
`_llm_proxy`, which only llm-proxy writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from llm_proxy.exporting.curl import CURL
from llm_proxy.exporting.format import ExportFormat
from llm_proxy.exporting.har import HAR
from llm_proxy.exporting.sse import SSE
from llm_proxy.exporting.vcr import VCR

FORMATS: Final[Mapping[str, ExportFormat]] = MappingProxyType(
    {export_format.name: export_format for export_format in (HAR, VCR, SSE, CURL)}
)
