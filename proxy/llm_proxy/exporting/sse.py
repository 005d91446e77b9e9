"""Exports a stream of server-sent events as received, without HTTP framing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from llm_proxy.errors import NotRepresentable, printable_excerpt
from llm_proxy.exporting.format import ExportedExchange, ExportFormat


def _serialize_sse(exchanges: Sequence[ExportedExchange]) -> bytes:
    [exported_exchange] = exchanges
    if exported_exchange.cassette.codec_name != "sse":
        file = printable_excerpt(exported_exchange.cassette.file, 500)
        raise NotRepresentable(
            f"the response of {file} is not an SSE stream; print the response body with "
            f"llm-proxy show {file} --body, or convert it with --as"
        )
    return exported_exchange.cassette.response_body


SSE: Final = ExportFormat("sse", _serialize_sse)
