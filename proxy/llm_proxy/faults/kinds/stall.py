"""`stall`: the response stops, and the connection stays open.

    head  event 1  ............................  event 2  …
    ├─────┼────────┤          silence            ├────────┼──

With `for=` it goes on after that time; without, nothing more is sent, until the client closes the
connection or the longest silence (`--silence`) is over and the proxy closes it.
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
    "the answer stops, and the connection stays open",
    _stall,
    {
        "for": FaultArgument(
            unit_parsers.parse_duration_ms, "how long; for ever where it is left out"
        )
    },
    allowed_locations=ALL_LOCATIONS,
    example="stall,after=1",
)
