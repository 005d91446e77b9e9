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
from llm_proxy.faults.kind import (
    FaultArgument,
    FaultContext,
    FaultEffect,
    FaultKind,
    MeteredFault,
    ReplaceResponse,
    RequestMechanism,
)


@dataclass(frozen=True, slots=True)
class _OpenConnectionResets:
    """Resets requests on open connections within the window."""

    begin_ms: float
    end_ms: float

    def mechanism_for_request(
        self, _context: FaultContext, _session: str, elapsed_ms: float
    ) -> RequestMechanism | None:
        is_within = self.begin_ms <= elapsed_ms < self.end_ms
        return ReplaceResponse(lambda _: (Abort("rst"),)) if is_within else None

    def forget_session(self, session: str) -> None:
        """Nothing is counted."""


KIND = FaultKind(
    "refuse",
    FaultEffect.DISCONNECTED,
    "nobody listens, for a while",
    lambda window: MeteredFault(lambda: _OpenConnectionResets(*window), window),
    {
        "window": FaultArgument(
            unit_parsers.parse_window_ms, "when: 3s, or 2s..5s", is_required=True
        )
    },
    scope="listener",
    example="refuse,window=500ms",
)
