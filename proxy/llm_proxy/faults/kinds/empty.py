"""`empty`: a valid head without a body.

    head  0␍␊␍␊
    ├─────┤

The status is a success and HTTP is valid, but the body is empty.  Most streaming clients raise
nothing, and return a response without text.  Not applicable to a response without a 2xx status.
"""

from __future__ import annotations

from llm_proxy.faults.kind import (
    AfterBytes,
    FaultEffect,
    FaultKind,
    FaultNotApplicable,
    InjectedActions,
    OneShot,
    StreamPosition,
)


def _end_body(position: StreamPosition) -> InjectedActions:
    if not 200 <= position.require_head().status < 300:
        raise FaultNotApplicable("the answer is no success")
    return InjectedActions(ends_response=True)


KIND = FaultKind(
    "empty",
    FaultEffect.TRUNCATED,
    "the right head, and no body",
    lambda: OneShot(
        _end_body, changes_length=True, only_truncates=True, default_location=AfterBytes(0)
    ),
    example="empty",
)
