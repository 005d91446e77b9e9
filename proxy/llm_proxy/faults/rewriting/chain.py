"""Several rules at work on one answer, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from llm_proxy.actions import Abort, Action, Begin, Burst, Send
from llm_proxy.exchange import Head
from llm_proxy.faults.rewriting.rewriter import Rewriter

_MOST: Final = 300_000
"""Actions that the rules of one answer look at, all together: some seconds of work."""


class TooMuch(Exception):
    """The rules of one answer make too much work together."""

    def __init__(self) -> None:
        super().__init__("the rules of this answer make too much work together")


class Chain:
    """What the rules make of the actions of an answer; each sees what those before it let go."""

    def __init__(self, rewriters: Sequence[Rewriter]) -> None:
        self.rewriters = tuple(rewriters)
        self.over = False
        """Whether the answer has ended by a rule: its source is wanted no more."""
        self._looked_at = 0

    @property
    def alarm(self) -> float | None:
        """The next moment, in ms, at which a rule strikes whether anything comes or not."""
        alarms = [it.alarm for it in self.rewriters if it.alarm is not None]
        return min(alarms, default=None)

    def feed(self, actions: Sequence[Action]) -> list[Action]:
        """What goes out for these actions.  Raises `TooMuch`."""
        return self._through(0, actions)

    def tick(self, ms: float) -> list[Action]:
        """What goes out because it is that late.  Raises `TooMuch`."""
        gone: list[Action] = []
        for number, rewriter in enumerate(self.rewriters):
            gone += self._settled(number, rewriter.tick(ms))
            if self.over:
                break
        return gone

    def close(self) -> list[Action]:
        """What goes out before the clean end.  Raises `TooMuch`."""
        return [] if self.over else self._closed(0)

    def _through(self, number: int, actions: Sequence[Action]) -> list[Action]:
        if number == len(self.rewriters):
            return list(actions)
        gone: list[Action] = []
        self._looked_at += len(actions)
        if self._looked_at > _MOST:
            raise TooMuch
        for action in actions:
            gone += self._settled(number, self.rewriters[number].feed(action))
            if self.over:
                break
        return gone

    def _settled(self, number: int, actions: list[Action]) -> list[Action]:
        """What a rule let go, through those behind it; with its end, where that is the end."""
        ends = self.rewriters[number].over
        gone = self._through(number + 1, actions)
        if ends and not self.over:
            if not (actions and isinstance(actions[-1], Abort)):
                gone += self._closed(number + 1)
            self.over = True
        return gone

    def _closed(self, number: int) -> list[Action]:
        gone: list[Action] = []
        for at in range(number, len(self.rewriters)):
            gone += self._settled(at, self.rewriters[at].close())
            if self.over:
                break
        return gone


def rewritten(burst: Burst, chain: Chain) -> Burst:
    """A whole answer through the rules.

    Where one may change its length and means nothing by it, the length that is declared follows.
    Raises `TooMuch`.
    """
    looked_at = 0
    for rewriter in chain.rewriters:
        looked_at += len(burst)
        if looked_at > _MOST:
            raise TooMuch
        rewriter.measure(_size(burst))
        alone = Chain((rewriter,))
        gone = alone.feed(burst)
        if not _is_broken_off(gone):
            gone += alone.close()
        if rewriter.resizes and not _is_broken_off(gone):
            longer = _size(gone) - _size(burst)
            gone = [_lengthened(it, longer) for it in gone]
        burst = tuple(gone)
    return burst


def _is_broken_off(actions: Sequence[Action]) -> bool:
    return bool(actions) and isinstance(actions[-1], Abort)


def _size(actions: Sequence[Action]) -> int:
    return sum(len(it.data) for it in actions if isinstance(it, Send))


def _lengthened(action: Action, by: int) -> Action:
    match action:
        case Begin(Head(framing="length", length=int(length)) as head):
            return Begin(replace(head, length=length + by))
        case _:
            return action


def unmeasured(action: Action) -> Action:
    """A head that declares no length, for a body whose length may come out otherwise."""
    if isinstance(action, Begin) and action.head.framing == "length":
        return Begin(replace(action.head, framing="chunked", length=None))
    return action
