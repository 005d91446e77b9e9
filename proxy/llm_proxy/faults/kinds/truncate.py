"""`truncate`: the body ends cleanly, but too early.

    head  event 1  event 2  (event 3  terminator)  0␍␊␍␊
    ├─────┼────────┼────────────────────────────────────┤

The HTTP response is valid, but lacks the provider's terminator, such as `[DONE]` or `message_stop`.
"""

from __future__ import annotations

from llm_proxy.faults.kind import (
    ALL_LOCATIONS,
    FaultEffect,
    FaultKind,
    InjectedActions,
    OneShot,
    StreamPosition,
)


def _end_body(position: StreamPosition) -> InjectedActions:
    position.require_head()  # a response cannot end cleanly before its head
    return InjectedActions(ends_response=True)


KIND = FaultKind(
    "truncate",
    FaultEffect.TRUNCATED,
    "a body that ends before the provider's terminator",
    lambda: OneShot(_end_body, changes_length=True, only_truncates=True),
    allowed_locations=ALL_LOCATIONS,
    example="truncate,after=2",
)
