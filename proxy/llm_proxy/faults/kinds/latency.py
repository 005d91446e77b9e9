"""`latency`: the response is delayed.

    ............  head  event 1  event 2  …
    │    by=   ├──┼─────┼────────┼────────

The whole response, or everything from its location on, is delayed by the same time.  `by` is a
duration with the syntax of paces: `300ms`, or one drawn for each request: `100..300ms`,
`normal(200ms,50ms)`.
"""

from __future__ import annotations

from llm_proxy.faults.durations import DELAY_ARGUMENT, seeded_delay_ms
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.kind import (
    ALL_LOCATIONS,
    FaultKind,
    InjectedActions,
    OneShot,
)

KIND = FaultKind(
    "latency",
    FaultEffect.SLOWED,
    "the answer comes late",
    lambda by: OneShot(
        lambda position: InjectedActions(delay_ms=seeded_delay_ms(by, position.context)),
        may_precede_head=True,
    ),
    {"by": DELAY_ARGUMENT},
    allowed_locations=ALL_LOCATIONS,
    example="latency,by=50ms",
)
