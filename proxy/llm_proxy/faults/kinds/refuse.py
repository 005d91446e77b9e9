"""`refuse`: the proxy refuses connections during a time window.

    SYN  RST
    ├────X      connection refused

The proxy closes its listening socket for all clients. Open connections are reset when they receive
a request in this window. The journal does not contain refused connections, only the times in which
the listener was closed.
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
    "refused connections",
    lambda window: MeteredFault(lambda: _OpenConnectionResets(*window), window),
    {
        "window": FaultArgument(
            unit_parsers.parse_window_ms,
            "time window, counted from when the rule was set, such as 3s or 2s..5s",
            is_required=True,
        )
    },
    scope="listener",
    example="refuse,window=500ms",
)
