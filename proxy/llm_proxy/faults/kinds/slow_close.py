"""`slow-close`: everything is sent, and the end of the body is delayed.

    head  event 1  event 2  [DONE]  ............  0␍␊␍␊
    ├─────┼────────┼────────┼───────┤    by=   ├──┤

A client that reads to the end of the body has to wait; one that stops at the provider's terminator
does not.  Not applicable to a body of a declared length, which ends with its last byte.
"""

from __future__ import annotations

from dataclasses import dataclass

from llm_proxy.actions import Action, Burst, Wait
from llm_proxy.faults.durations import parse_duration, seeded_duration_ms
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.kind import FaultArgument, FaultKind, Mechanism, StreamPosition, Transform
from llm_proxy.faults.location import StreamLocation
from llm_proxy.pacing.distributions import DurationDistribution


@dataclass(frozen=True, slots=True)
class SlowClose:
    """Delays the end of the body by a duration drawn from `by`."""

    by: DurationDistribution

    def make_mechanism(self, _location: StreamLocation | None, /) -> Mechanism:
        """Adds a delay before the clean end."""
        return Transform(self._make_transform)

    def _make_transform(self, position: StreamPosition) -> _DelayedEndTransform:
        return _DelayedEndTransform(
            seeded_duration_ms(self.by, position.context, "by"), position.at_ms
        )


class _DelayedEndTransform:
    def __init__(self, delay_ms: float, last_due_ms: float) -> None:
        self._delay_ms = delay_ms
        self._last_due_ms = last_due_ms

    def feed(self, action: Action) -> Burst:
        if isinstance(action, Wait):
            self._last_due_ms = action.due
        return (action,)

    def close(self) -> Burst:
        return (Wait(self._last_due_ms + self._delay_ms),)


KIND = FaultKind(
    "slow-close", FaultEffect.SLOWED, "all is sent, and its end comes late", SlowClose,
    {"by": FaultArgument(parse_duration, "how late: 300ms, or drawn for each request: "
                                     "100..300ms", is_required=True)},
    allowed_framings=frozenset(("chunked", "close")), example="slow-close,by=50ms",
)  # fmt: skip
