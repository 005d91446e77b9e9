"""`empty`: the response has a valid head, but no body.

    head  0␍␊␍␊
    ├─────┤

The fault applies only to 2xx responses.
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
        raise FaultNotApplicable("the status of the response is not 2xx")
    return InjectedActions(ends_response=True)


KIND = FaultKind(
    "empty",
    FaultEffect.TRUNCATED,
    "a 2xx response without a body",
    lambda: OneShot(
        _end_body, changes_length=True, only_truncates=True, default_location=AfterBytes(0)
    ),
    example="empty",
)
