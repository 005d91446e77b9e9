"""`refuse`: nobody listens, for a while.

    SYN  RST
    ├────X      connection refused

Within its window the listener is closed, for all clients: connecting fails (`ECONNREFUSED`), and a
request on a connection that is open already meets a reset.  Behind it the same port listens again.
What was never connected is no request, and stands in no journal: the log tells when the listener
closes and opens.  Our own pages cannot be reached meanwhile either, but on a connection that is
open.

`window` counts from the moment the rule is given: `3s` begins at once, `2s..5s` after two seconds.
"""

from __future__ import annotations

from dataclasses import dataclass

from llm_proxy import unit_parsers
from llm_proxy.actions import Abort
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.kind import (
    FaultArgument,
    FaultContext,
    FaultKind,
    MeteredFault,
    ReplaceResponse,
    Work,
    Working,
)
from llm_proxy.faults.location import Place


@dataclass(frozen=True, slots=True)
class RefuseConnections:
    """A closed listener."""

    window: tuple[float, float]
    """Between these moments, in ms since the rule was given."""

    def mechanism(self, _place: Place | None, /) -> Work:
        """What it does to requests that come nevertheless."""
        return MeteredFault(lambda: _ResetMeter(self.window))


class _ResetMeter:
    """Resets what comes within the window."""

    def __init__(self, window: tuple[float, float]) -> None:
        self._begin, self._end = window

    def admit(self, _context: FaultContext, _session: str, now: float) -> Working | None:
        return (
            ReplaceResponse(lambda _: (Abort("rst"),)) if self._begin <= now < self._end else None
        )

    def forget_session(self, session: str) -> None:
        """It keeps nothing."""


KIND = FaultKind(
    "refuse", FaultEffect.DISCONNECTED, "nobody listens, for a while", RefuseConnections,
    {"window": FaultArgument(unit_parsers.parse_window, "when: 3s, or 2s..5s", is_required=True)},
    scope="listener", example="refuse,window=500ms",
)  # fmt: skip
