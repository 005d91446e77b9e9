"""`wrong-length`: the body is shorter than its `Content-Length`.

content-length: 1100  {"id": … }  FIN
├─────────────────────┼──────────┤
                        1000 bytes
"""

from __future__ import annotations

from dataclasses import replace

from llm_proxy import unit_parsers
from llm_proxy.actions import Abort, Burst
from llm_proxy.errors import UsageError
from llm_proxy.exchange import ResponseHead
from llm_proxy.faults.kind import (
    FaultArgument,
    FaultEffect,
    FaultKind,
    HeadTransform,
    Mechanism,
    Transform,
)


def _wrong_length(by: int) -> Mechanism:
    if by < 1:
        raise UsageError("by= must be at least 1 byte")

    def with_longer_body(head: ResponseHead) -> ResponseHead:
        return replace(head, content_length=(head.content_length or 0) + by)

    return Transform(lambda _: _ContentLengthTransform(with_longer_body))


class _ContentLengthTransform(HeadTransform):
    def close(self) -> Burst:
        return (Abort("fin"),)


KIND = FaultKind(
    "wrong-length",
    FaultEffect.CUT,
    "a body shorter than its Content-Length",
    _wrong_length,
    {"by": FaultArgument(unit_parsers.parse_size_bytes, "number of missing bytes", "100")},
    allowed_framings=frozenset(("length",)),
    example="wrong-length",
)
