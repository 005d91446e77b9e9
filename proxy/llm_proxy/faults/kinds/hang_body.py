"""`hang-body`: the head is sent, and nothing after it.

    head  .....................................  FIN
    ├─────┤              silence              ├──┤

The connection stays open for the time `for=`, or for the longest silence (`--silence`); then it is
closed, too early.  Clients whose timeout covers only the head keep waiting.
"""

from __future__ import annotations

from dataclasses import dataclass

from llm_proxy import unit_parsers
from llm_proxy.actions import Abort, Wait
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.kind import (
    FaultArgument,
    FaultKind,
    InjectedActions,
    Mechanism,
    OneShot,
    StreamPosition,
)
from llm_proxy.faults.location import AfterBytes, StreamLocation


@dataclass(frozen=True, slots=True)
class HangBody:
    """Sends nothing after the head for `for_` ms; None means the longest silence."""

    for_: float | None = None

    def make_mechanism(self, _location: StreamLocation | None, /) -> Mechanism:
        """Ends the response after the head, late."""
        return OneShot(self._make_injected_actions, default_location=AfterBytes(0))

    def _make_injected_actions(self, position: StreamPosition) -> InjectedActions:
        silence_ms = position.context.max_silence_ms if self.for_ is None else self.for_
        return InjectedActions(
            (Wait(position.at_ms + silence_ms), Abort("fin")), ends_response=True
        )


KIND = FaultKind(
    "hang-body", FaultEffect.UNANSWERED, "the head comes, and nothing behind it", HangBody,
    {"for": FaultArgument(unit_parsers.parse_duration_ms, "how long; the longest silence if "
                                                           "left out")},
    example="hang-body,for=500ms",
)  # fmt: skip
