"""`hang`: no response is sent.

    request  .....................................  FIN
    ├────────┤              silence              ├──┤

The connection stays open without any bytes for the time `for=`, or for the longest silence
(`--silence`); then it is closed.  The real response is never fetched.  Shows whether a client has a
timeout.
"""

from __future__ import annotations

from dataclasses import dataclass

from llm_proxy import unit_parsers
from llm_proxy.actions import Abort, Burst, Wait
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.kind import FaultArgument, FaultContext, FaultKind, Mechanism, ReplaceResponse
from llm_proxy.faults.location import StreamLocation


@dataclass(frozen=True, slots=True)
class Hang:
    """Sends nothing for `for_` ms; None means the longest silence."""

    for_: float | None = None

    def make_mechanism(self, _location: StreamLocation | None, /) -> Mechanism:
        """Replaces the response."""
        return ReplaceResponse(self._replacement_response)

    def _replacement_response(self, context: FaultContext) -> Burst:
        return (Wait(context.max_silence_ms if self.for_ is None else self.for_), Abort("fin"))


KIND = FaultKind(
    "hang", FaultEffect.UNANSWERED, "no answer comes, and the connection stays open", Hang,
    {"for": FaultArgument(unit_parsers.parse_duration_ms, "how long; the longest silence if "
                                                           "left out")},
    example="hang,for=500ms",
)  # fmt: skip
