"""Several rules at work on one answer, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from llm_proxy.actions import Abort, Action, Begin, Burst, Send
from llm_proxy.faults.rewriting.rewriter import Rewriter


class Chain:
    """What the rules make of the actions of an answer; each sees what those before it let go."""

    def __init__(self, rewriters: Sequence[Rewriter]) -> None:
        self._rewriters = tuple(rewriters)
        self.over = False
        """Whether the answer has ended by a rule: its source is wanted no more."""

    @property
    def alarm(self) -> float | None:
        """The next moment, in ms, at which a rule strikes whether anything comes or not."""
        alarms = [it.alarm for it in self._rewriters if it.alarm is not None]
        return min(alarms, default=None)

    def feed(self, actions: Sequence[Action]) -> list[Action]:
        """What goes out for these actions."""
        return self._through(0, actions)

    def tick(self, ms: float) -> list[Action]:
        """What goes out because it is that late."""
        gone: list[Action] = []
        for number, rewriter in enumerate(self._rewriters):
            gone += self._settled(number, rewriter.tick(ms))
            if self.over:
                break
        return gone

    def close(self) -> list[Action]:
        """What goes out before the clean end."""
        return [] if self.over else self._closed(0)

    def _through(self, number: int, actions: Sequence[Action]) -> list[Action]:
        if number == len(self._rewriters):
            return list(actions)
        gone: list[Action] = []
        for action in actions:
            gone += self._settled(number, self._rewriters[number].feed(action))
            if self.over:
                break
        return gone

    def _settled(self, number: int, actions: list[Action]) -> list[Action]:
        """What a rule let go, through those behind it; with its end, where that is the end."""
        ends = self._rewriters[number].over
        gone = self._through(number + 1, actions)
        if ends and not self.over:
            if not (actions and isinstance(actions[-1], Abort)):
                gone += self._closed(number + 1)
            self.over = True
        return gone

    def _closed(self, number: int) -> list[Action]:
        gone: list[Action] = []
        for at in range(number, len(self._rewriters)):
            gone += self._settled(at, self._rewriters[at].close())
            if self.over:
                break
        return gone


def rewritten(burst: Burst, chain: Chain, *, resizes: bool) -> Burst:
    """A whole answer through the rules.

    Where they may change its length and mean nothing by it, the length that is declared follows.
    """
    gone = [*chain.feed(burst), *chain.close()]
    if not resizes:
        return tuple(gone)
    size = sum(len(it.data) for it in gone if isinstance(it, Send))
    return tuple(_fitted(it, size) if isinstance(it, Begin) else it for it in gone)


def _fitted(begin: Begin, size: int) -> Begin:
    head = begin.head
    return Begin(replace(head, length=size)) if head.framing == "length" else begin


def unmeasured(action: Action) -> Action:
    """A head that declares no length, for a body whose length may come out otherwise."""
    if isinstance(action, Begin) and action.head.framing == "length":
        return Begin(replace(action.head, framing="chunked", length=None))
    return action
