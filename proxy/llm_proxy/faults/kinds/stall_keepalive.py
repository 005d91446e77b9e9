"""`stall-keepalive`: the response stops, but keep-alive messages continue.

    head  event 1  ....  ping  ....  ping  ....  ping  ....  event 2  …
    ├─────┼────────┤      ├───────────┼───────────┤           ├────────┼──

Every `interval=` the provider's own keep-alive message is sent: a comment, or Anthropic's event
`ping`.  No read waits long, so no read timeout ends it: only a deadline for the whole response
does.  With `for=` the response goes on after that time; without, the connection is closed when the
longest silence (`--silence`) is over.  Not applicable where the provider has no such message:
Gemini, Bedrock, JSON lines, whole bodies.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from llm_proxy import unit_parsers
from llm_proxy.actions import Abort, Action, Send, Wait
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.kind import (
    MESSAGE_LOCATIONS,
    FaultArgument,
    FaultKind,
    FaultNotApplicable,
    InjectedActions,
    Mechanism,
    OneShot,
    StreamPosition,
)
from llm_proxy.faults.location import StreamLocation

_MIN_INTERVAL_MS: Final = 10.0
"""The shortest time between two keep-alive messages."""
_MAX_KEEP_ALIVES: Final = 100_000
"""The most keep-alive messages in one response."""


@dataclass(frozen=True, slots=True)
class StallKeepalive:
    """Sends a keep-alive every `interval` ms for `for_` ms; None: nothing else follows."""

    interval: float
    for_: float | None = None

    def __post_init__(self) -> None:
        """Raises `ValueError` for too short an interval, or too many keep-alives."""
        if self.interval < _MIN_INTERVAL_MS:
            raise ValueError(f"interval must be {_MIN_INTERVAL_MS:g}ms or more")
        if (self.for_ or 0) / self.interval > _MAX_KEEP_ALIVES:
            raise ValueError(f"for must be at most {_MAX_KEEP_ALIVES} times the interval")

    def make_mechanism(self, _location: StreamLocation | None, /) -> Mechanism:
        """Pauses or ends the response at its location."""
        effect = None if self.for_ is None else FaultEffect.SLOWED
        return OneShot(self._make_injected_actions, changes_length=True, effect=effect)

    def _make_injected_actions(self, position: StreamPosition) -> InjectedActions:
        position.require_head()
        dialect = position.context.decoded_request.dialect
        keep_alive = dialect.keep_alive_message(position.codec)
        if not keep_alive:
            raise FaultNotApplicable(f"{dialect.name} has no keep-alive in such an answer")
        if position.sent_message_prefix:
            raise FaultNotApplicable("a message was under way")
        if self.for_ is not None:
            return InjectedActions(
                tuple(self._keep_alive_actions(keep_alive, position.at_ms, self.for_)),
                delay_ms=self.for_,
            )
        max_silence_ms = position.context.max_silence_ms
        keep_alives = self._keep_alive_actions(keep_alive, position.at_ms, max_silence_ms)
        return InjectedActions(
            (*keep_alives, Wait(position.at_ms + max_silence_ms), Abort("fin")), ends_response=True
        )

    def _keep_alive_actions(
        self, keep_alive: bytes, begin_ms: float, duration_ms: float
    ) -> Iterator[Action]:
        for number in range(1, min(int(duration_ms / self.interval), _MAX_KEEP_ALIVES) + 1):
            yield Wait(begin_ms + number * self.interval)
            yield Send(keep_alive)


KIND = FaultKind(
    "stall-keepalive", FaultEffect.STALLED, "nothing is said, but the provider shows that it lives",
    StallKeepalive,
    {
        "interval": FaultArgument(unit_parsers.parse_duration_ms, "from one sign of life to "
                                                                   "the next", "15s"),
        "for": FaultArgument(unit_parsers.parse_duration_ms, "how long; for ever where it is "
                                                              "left out"),
    },
    allowed_locations=MESSAGE_LOCATIONS | {"ms"}, allowed_codecs=frozenset({"sse"}),
    example="stall-keepalive,after=1,interval=50ms,for=200ms",
)  # fmt: skip
