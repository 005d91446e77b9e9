"""A stream of server-sent events as it came, without HTTP's own framing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from llm_proxy.errors import CannotSay, printable
from llm_proxy.exporting.format import Exported, Format


def _write(exchanges: Sequence[Exported]) -> bytes:
    [it] = exchanges
    if it.cassette.codec != "sse":
        file = printable(it.cassette.file, 500)
        raise CannotSay(
            f"{file} is no stream of events but {it.cassette.codec}: llm-proxy show {file} --body "
            "gives its bytes, and --as tells it in a dialect that has such streams"
        )
    return it.cassette.body


SSE: Final = Format("sse", _write)
