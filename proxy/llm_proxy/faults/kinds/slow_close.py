"""`slow-close`: the whole body is sent, but the end of the response is delayed.

    head  event 1  event 2  [DONE]  ............  0␍␊␍␊
    ├─────┼────────┼────────┼───────┤    by=   ├──┤

Clients that stop reading at the provider's terminator are not delayed.  Bodies with a
`Content-Length` are not supported.
"""

from __future__ import annotations

from llm_proxy.faults.kind import (
    AtEnd,
    FaultEffect,
    FaultKind,
    InjectedActions,
    Mechanism,
    OneShot,
)
from llm_proxy.faults.kinds.latency import DELAY_ARGUMENT, seeded_delay_ms
from llm_proxy.pacing.distributions import DurationDistribution


def _slow_close(by: DurationDistribution) -> Mechanism:
    return OneShot(
        lambda position: InjectedActions(delay_ms=seeded_delay_ms(by, position.context)),
        default_location=AtEnd(),
    )


KIND = FaultKind(
    "slow-close",
    FaultEffect.SLOWED,
    "a delayed end of the body",
    _slow_close,
    {"by": DELAY_ARGUMENT},
    allowed_framings=frozenset(("chunked", "close")),
    example="slow-close,by=50ms",
)
