"""`stall`: the response stops, and the connection stays open.

head  event 1  ............................  event 2  …
├─────┼────────┤          silence            ├────────┼──

Without `for=`, the proxy closes the connection after the time set by `--silence`.
"""

from __future__ import annotations

from llm_proxy import unit_parsers
from llm_proxy.faults.kind import (
    ALL_LOCATIONS,
    FaultArgument,
    FaultEffect,
    FaultKind,
    InjectedActions,
    Mechanism,
    OneShot,
)


def _stall(for_: float | None = None) -> Mechanism:
    if for_ is not None:
        pause = InjectedActions(delay_ms=for_)
        return OneShot(lambda _: pause, effect=FaultEffect.SLOWED)
    return OneShot(
        lambda position: InjectedActions(
            position.context.silence_until_close(position.at_ms), ends_response=True
        )
    )


KIND = FaultKind(
    "stall",
    FaultEffect.STALLED,
    "a response that stops",
    _stall,
    {
        "for": FaultArgument(
            unit_parsers.parse_duration_ms,
            "duration of the pause",
        )
    },
    allowed_locations=ALL_LOCATIONS,
    example="stall,after=1",
)
