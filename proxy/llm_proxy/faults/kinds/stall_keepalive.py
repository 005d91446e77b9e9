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
from llm_proxy.faults.fault_record import Effect
from llm_proxy.faults.kind import (
    AT_MESSAGES,
    Argument,
    CannotInject,
    Kind,
    Moment,
    Strike,
    Struck,
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

    def work(self, _place: Place | None, /) -> Work:
        """The stall, at its place."""
        effect = None if self.for_ is None else Effect.SLOWED
        return Strike(self._strike, resizes=True, effect=effect)

    def _strike(self, moment: Moment) -> Struck:
        moment.begun_head()
        dialect = moment.met.asked.dialect
        sign = dialect.keep_alive(moment.codec)
        if not sign:
            raise CannotInject(f"{dialect.name} has no keep-alive in such an answer")
        if moment.begun:
            raise CannotInject("a message was under way")
        if self.for_ is not None:
            return Struck(tuple(self._signs(sign, moment.at, self.for_)), delay=self.for_)
        silence = moment.met.silence
        signs = self._signs(sign, moment.at, silence)
        return Struck((*signs, Wait(moment.at + silence), Abort("fin")), over=True)

    def _signs(self, sign: bytes, begin: float, span: float) -> Iterator[Action]:
        """One whenever the interval is over, up to the end of the span."""
        for number in range(1, min(int(span / self.interval), _MOST) + 1):
            yield Wait(begin + number * self.interval)
            yield Send(sign)


KIND = Kind(
    "stall-keepalive", Effect.STALLED, "nothing is said, but the provider shows that it lives",
    StallKeepalive,
    {
        "interval": Argument(unit_parsers.milliseconds, "from one sign of life to the next", "15s"),
        "for": Argument(unit_parsers.milliseconds, "how long; for ever where it is left out"),
    },
    places=AT_MESSAGES | {"ms"}, bodies=frozenset({"sse"}),
    example="stall-keepalive,after=1,interval=50ms,for=200ms",
)  # fmt: skip
