"""`truncate`: the body ends cleanly, and too early.

    head  event 1  event 2  (event 3  terminator)  0␍␊␍␊
    ├─────┼────────┼────────────────────────────────────┤

HTTP is in order: only the provider's own terminator is missing (`[DONE]`, `message_stop`,
`"done":true`), and most clients raise nothing.  A whole body is cut, and its length declared as it
is.
"""

from __future__ import annotations

from dataclasses import dataclass

from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.kind import (
    ANYWHERE,
    FaultKind,
    InjectedActions,
    OneShot,
    StreamPosition,
    Work,
)
from llm_proxy.faults.location import Place


@dataclass(frozen=True, slots=True)
class Truncate:
    """An early end."""

    def mechanism(self, _place: Place | None, /) -> Work:
        """The end, at its place."""
        return OneShot(_inject, changes_length=True, cuts_stream=True)


def _inject(position: StreamPosition) -> InjectedActions:
    position.require_head()  # without one, nothing at all would come, and no end
    return InjectedActions(ends_response=True)


KIND = FaultKind(
    "truncate", FaultEffect.TRUNCATED, "a clean end without the "
                                       "terminator", Truncate, allowed_locations=ANYWHERE,
    example="truncate,after=2",
)  # fmt: skip
