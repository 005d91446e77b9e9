"""`slow-close`: everything is sent, and the end of the body is delayed.

    head  event 1  event 2  [DONE]  ............  0␍␊␍␊
    ├─────┼────────┼────────┼───────┤    by=   ├──┤

A client that reads to the end of the body has to wait; one that stops at the provider's terminator
does not.  Not applicable to a body of a declared length, which ends with its last byte.
"""

from __future__ import annotations

from llm_proxy.actions import Action, Burst, Wait
from llm_proxy.faults.kind import (
    ActionTransform,
    FaultEffect,
    FaultKind,
    StreamPosition,
    Transform,
)
from llm_proxy.faults.kinds.latency import DELAY_ARGUMENT, seeded_delay_ms
from llm_proxy.pacing.distributions import DurationDistribution


class _DelayedEndTransform(ActionTransform):
    def __init__(self, by: DurationDistribution, position: StreamPosition) -> None:
        self._delay_ms = seeded_delay_ms(by, position.context)
        self._last_due_ms = position.at_ms

    def feed(self, action: Action) -> Burst:
        if isinstance(action, Wait):
            self._last_due_ms = action.due
        return (action,)

    def close(self) -> Burst:
        return (Wait(self._last_due_ms + self._delay_ms),)


KIND = FaultKind(
    "slow-close",
    FaultEffect.SLOWED,
    "all is sent, and its end comes late",
    lambda by: Transform(lambda position: _DelayedEndTransform(by, position)),
    {"by": DELAY_ARGUMENT},
    allowed_framings=frozenset(("chunked", "close")),
    example="slow-close,by=50ms",
)
