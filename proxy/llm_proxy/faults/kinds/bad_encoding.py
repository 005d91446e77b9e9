"""`bad-encoding`: `Content-Encoding` is `gzip`, but the body is not compressed.

    content-encoding: gzip  event 1  event 2  …
    ├───────────────────────┼────────┼────────┼──

If the body is already compressed with gzip, `Content-Encoding` is set to `deflate` instead.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from llm_proxy.exchange import ResponseHead, header_value
from llm_proxy.faults.kind import (
    FRAMINGS_WITH_BODY,
    FaultEffect,
    FaultKind,
    HeadTransform,
    Transform,
)

_NAME: Final = "Content-Encoding"


def _with_false_encoding(head: ResponseHead) -> ResponseHead:
    actual_coding = (header_value(head.headers, _NAME) or "").lower()
    false_coding = "deflate" if "gzip" in actual_coding else "gzip"
    kept = [header for header in head.headers if header[0].lower() != _NAME.lower()]
    return replace(head, headers=(*kept, (_NAME, false_coding)))


KIND = FaultKind(
    "bad-encoding",
    FaultEffect.MALFORMED,
    "a wrong `Content-Encoding`",
    lambda: Transform(lambda _: HeadTransform(_with_false_encoding)),
    allowed_framings=FRAMINGS_WITH_BODY,
    example="bad-encoding",
)
