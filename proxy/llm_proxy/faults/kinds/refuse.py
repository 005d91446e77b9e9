"""`refuse`: connections are refused for a while.

    SYN  RST
    ├────X      connection refused

Within its window the listening socket is closed, for all clients: connecting fails
(`ECONNREFUSED`), and a request on an open connection gets a reset.  After it, the same port listens
again.  A refused connection is no request, so the journal does not contain it; the log records when
the listener closes and opens.  The proxy's own pages are not reachable meanwhile either, except on
an open connection.

`window` counts from the time the rule is set: `3s` begins at once, `2s..5s` after two seconds.
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
    Mechanism,
    MeteredFault,
    ReplaceResponse,
    RequestMechanism,
)
from llm_proxy.faults.location import StreamLocation


@dataclass(frozen=True, slots=True)
class RefuseConnections:
    """Closes the listening socket for a while."""

    window: tuple[float, float]
    """Begin and end, in ms since the rule was set."""

    def make_mechanism(self, _location: StreamLocation | None, /) -> Mechanism:
        """Resets requests on connections that are open already."""
        return MeteredFault(lambda: _ConnectionResetMeter(self.window))


class _ConnectionResetMeter:
    """Resets requests within the window."""

    def __init__(self, window_ms: tuple[float, float]) -> None:
        self._begin_ms, self._end_ms = window_ms

    def mechanism_for_request(
        self, _context: FaultContext, _session: str, elapsed_ms: float
    ) -> RequestMechanism | None:
        return (
            ReplaceResponse(lambda _: (Abort("rst"),))
            if self._begin_ms <= elapsed_ms < self._end_ms
            else None
        )

    def forget_session(self, session: str) -> None:
        """Nothing is counted."""


KIND = FaultKind(
    "refuse", FaultEffect.DISCONNECTED, "nobody listens, for a while", RefuseConnections,
    {"window": FaultArgument(
        unit_parsers.parse_window_ms, "when: 3s, or 2s..5s", is_required=True
    )},
    scope="listener", example="refuse,window=500ms",
)  # fmt: skip
