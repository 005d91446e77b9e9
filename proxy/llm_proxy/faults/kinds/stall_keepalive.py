"""`stall-keepalive`: nothing more is said, but the provider shows that it lives.

    head  event 1  ....  ping  ....  ping  ....  ping  ....  event 2  …
    ├─────┼────────┤      ├───────────┼───────────┤           ├────────┼──

Every `interval=` comes what the provider itself sends in such a time: a comment, or Anthropic's
event `ping`.  No read ever waits long, so no read timeout ends it: only a deadline for the whole
answer does.  With `for=` the answer goes on after that time; without, the connection is closed
when the longest silence (`--silence`) is over.  It has no meaning where the provider has no such
message: Gemini, Bedrock, lines of JSON, whole bodies.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from llm_proxy import unit_parsers
from llm_proxy.actions import Abort, Action, Send, Wait
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.kind import (
    AT_MESSAGES,
    FaultArgument,
    FaultKind,
    FaultNotApplicable,
    InjectedActions,
    OneShot,
    StreamPosition,
    Work,
)
from llm_proxy.faults.location import Place

_LEAST: Final = 10.0
"""ms between two signs of life."""
_MOST: Final = 100_000
"""Signs of life in one answer."""


@dataclass(frozen=True, slots=True)
class StallKeepalive:
    """A sign of life every so many ms, for so many ms; None is for ever."""

    interval: float
    for_: float | None = None

    def __post_init__(self) -> None:
        """Raises `ValueError` for more signs of life than anybody would send."""
        if self.interval < _LEAST:
            raise ValueError(f"interval must be {_LEAST:g}ms or more")
        if (self.for_ or 0) / self.interval > _MOST:
            raise ValueError(f"for must be at most {_MOST} times the interval")

    def mechanism(self, _place: Place | None, /) -> Work:
        """The stall, at its place."""
        effect = None if self.for_ is None else FaultEffect.SLOWED
        return OneShot(self._inject, changes_length=True, effect=effect)

    def _inject(self, position: StreamPosition) -> InjectedActions:
        position.require_head()
        dialect = position.context.request.dialect
        sign = dialect.keep_alive_message(position.codec)
        if not sign:
            raise FaultNotApplicable(f"{dialect.name} has no keep-alive in such an answer")
        if position.partial_message:
            raise FaultNotApplicable("a message was under way")
        if self.for_ is not None:
            return InjectedActions(
                tuple(self._keep_alive_actions(sign, position.at, self.for_)), delay=self.for_
            )
        silence = position.context.silence
        signs = self._keep_alive_actions(sign, position.at, silence)
        return InjectedActions(
            (*signs, Wait(position.at + silence), Abort("fin")), ends_response=True
        )

    def _keep_alive_actions(self, sign: bytes, begin: float, span: float) -> Iterator[Action]:
        """One whenever the interval is over, up to the end of the span."""
        for number in range(1, min(int(span / self.interval), _MOST) + 1):
            yield Wait(begin + number * self.interval)
            yield Send(sign)


KIND = FaultKind(
    "stall-keepalive", FaultEffect.STALLED, "nothing is said, but the provider shows that it lives",
    StallKeepalive,
    {
        "interval": FaultArgument(unit_parsers.parse_milliseconds, "from one sign of life to "
                                                                   "the next", "15s"),
        "for": FaultArgument(unit_parsers.parse_milliseconds, "how long; for ever where it is "
                                                              "left out"),
    },
    allowed_locations=AT_MESSAGES | {"ms"}, allowed_bodies=frozenset({"sse"}),
    example="stall-keepalive,after=1,interval=50ms,for=200ms",
)  # fmt: skip
