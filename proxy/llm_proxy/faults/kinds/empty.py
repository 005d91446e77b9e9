"""`empty`: the right head, and no body.

    head  0␍␊␍␊
    ├─────┤

The status is that of success and HTTP is in order, but nothing is said.  Most clients of streams
raise nothing, and hand on an answer without words.  An answer that is no success is left as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.kind import (
    FaultKind,
    FaultNotApplicable,
    InjectedActions,
    OneShot,
    StreamPosition,
    Work,
)
from llm_proxy.faults.location import AfterBytes, Place


@dataclass(frozen=True, slots=True)
class Empty:
    """The end, behind the head."""

    def mechanism(self, _place: Place | None, /) -> Work:
        """Behind the head."""
        return OneShot(
            _inject, changes_length=True, cuts_stream=True, default_location=AfterBytes(0)
        )


def _inject(position: StreamPosition) -> InjectedActions:
    if not 200 <= position.require_head().status < 300:
        raise FaultNotApplicable("the answer is no success")
    return InjectedActions(ends_response=True)


KIND = FaultKind(
    "empty", FaultEffect.TRUNCATED, "the right head, and no body", Empty, example="empty"
)
