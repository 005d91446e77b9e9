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
from llm_proxy.importing.formats.responses_only import ANSWER
from llm_proxy.importing.formats.vcr import VCR
from llm_proxy.importing.formats.vcr_ruby import VCR_RUBY
from llm_proxy.importing.source import ForeignFormat

FORMATS: Final[tuple[ForeignFormat, ...]] = (
    HTTPRR, MITMPROXY, HAR, VCR, VCR_RUBY, GO_VCR, REEL, NOCK, DATADOG, ANSWER
)  # fmt: skip
"""In the order in which they are asked; what they claim does not overlap, but for the last, which
takes what looks like an answer."""

__all__ = ["FORMATS"]
