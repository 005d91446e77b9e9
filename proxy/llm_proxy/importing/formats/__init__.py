"""The supported foreign formats, one per file."""

from __future__ import annotations

from typing import Final

from llm_proxy.importing.formats.datadog import DATADOG
from llm_proxy.importing.formats.go_vcr import GO_VCR
from llm_proxy.importing.formats.har import HAR
from llm_proxy.importing.formats.httprr import HTTPRR
from llm_proxy.importing.formats.mitmproxy import MITMPROXY
from llm_proxy.importing.formats.nock import NOCK
from llm_proxy.importing.formats.reel import REEL
from llm_proxy.importing.formats.responses_only import RESPONSE_ONLY
from llm_proxy.importing.formats.vcr import VCR
from llm_proxy.importing.formats.vcr_ruby import VCR_RUBY
from llm_proxy.importing.source import ForeignFormat

FORMATS: Final[tuple[ForeignFormat, ...]] = (
    HTTPRR, MITMPROXY, HAR, VCR, VCR_RUBY, GO_VCR, REEL, NOCK, DATADOG, RESPONSE_ONLY
)  # fmt: skip
"""In the order in which they are tried; they do not overlap, except the last, which matches
anything that looks like a response."""

__all__ = ["FORMATS"]
