"""`slow-close`: all is sent, and its end comes late.

    head  event 1  event 2  [DONE]  ............  0␍␊␍␊
    ├─────┼────────┼────────┼───────┤    by=   ├──┤

A client that waits for the end of the body waits; one that goes by the provider's terminator does
not.  A body of a declared length ends with its last byte, so it has no meaning there.
"""

from __future__ import annotations

from dataclasses import dataclass

from llm_proxy.actions import Action, Burst, Wait
from llm_proxy.faults.durations import parse_span, seeded_duration_ms
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.kind import FaultArgument, FaultKind, StreamPosition, Transform, Work
from llm_proxy.faults.location import Place
from llm_proxy.pacing.distributions import Distribution


@dataclass(frozen=True, slots=True)
class SlowClose:
    """A delay before the end."""

    by: Distribution

    def mechanism(self, _place: Place | None, /) -> Work:
        """Behind everything."""
        return Transform(self._begin_transform)

    def _begin_transform(self, position: StreamPosition) -> _DelayedEnd:
        return _DelayedEnd(seeded_duration_ms(self.by, position.context, "by"), position.at)


class _DelayedEnd:
    def __init__(self, by: float, at: float) -> None:
        self._by = by
        self._at = at

    def feed(self, action: Action) -> Burst:
        if isinstance(action, Wait):
            self._at = action.due
        return (action,)

    def close(self) -> Burst:
        return (Wait(self._at + self._by),)


KIND = FaultKind(
    "slow-close", FaultEffect.SLOWED, "all is sent, and its end comes late", SlowClose,
    {"by": FaultArgument(parse_span, "how late: 300ms, or drawn for each request: "
                                     "100..300ms", is_required=True)},
    needs_messages=frozenset(("chunked", "close")), example="slow-close,by=50ms",
)  # fmt: skip
