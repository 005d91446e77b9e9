"""Applies several rules to one response, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from llm_proxy.actions import Abort, Action, Begin, Burst, Send
from llm_proxy.exchange import ResponseHead
from llm_proxy.faults.rewriting.rewriter import RuleRewriter

_MOST: Final = 300_000
"""Actions that the rules of one answer look at, all together: some seconds of work."""


class RewritingTooExpensive(Exception):
    """The rules of one answer make too much work together."""

    def __init__(self) -> None:
        super().__init__("the rules of this answer make too much work together")


class RewriterChain:
    """What the rules make of the actions of an answer; each sees what those before it let go."""

    def __init__(self, rewriters: Sequence[RuleRewriter]) -> None:
        self.rewriters = tuple(rewriters)
        self.is_over = False
        """Whether the answer has ended by a rule: its source is wanted no more."""
        self._looked_at = 0

    @property
    def next_alarm_ms(self) -> float | None:
        """The next moment, in ms, at which a rule strikes whether anything comes or not."""
        alarms = [rewriter.alarm_ms for rewriter in self.rewriters if rewriter.alarm_ms is not None]
        return min(alarms, default=None)

    def feed(self, actions: Sequence[Action]) -> list[Action]:
        """What goes out for these actions.  Raises `TooMuch`."""
        return self._feed_through(0, actions)

    def tick(self, ms: float) -> list[Action]:
        """What goes out because it is that late.  Raises `TooMuch`."""
        gone: list[Action] = []
        for number, rewriter in enumerate(self.rewriters):
            gone += self._feed_released(number, rewriter.tick(ms))
            if self.is_over:
                break
        return gone

    def close(self) -> list[Action]:
        """What goes out before the clean end.  Raises `TooMuch`."""
        return [] if self.is_over else self._close_rewriter(0)

    def _feed_through(self, number: int, actions: Sequence[Action]) -> list[Action]:
        if number == len(self.rewriters):
            return list(actions)
        gone: list[Action] = []
        self._looked_at += len(actions)
        if self._looked_at > _MOST:
            raise RewritingTooExpensive
        for action in actions:
            gone += self._feed_released(number, self.rewriters[number].feed(action))
            if self.is_over:
                break
        return gone

    def _feed_released(self, number: int, actions: list[Action]) -> list[Action]:
        """What a rule let go, through those behind it; with its end, where that is the end."""
        ends = self.rewriters[number].is_over
        gone = self._feed_through(number + 1, actions)
        if ends and not self.is_over:
            if not (actions and isinstance(actions[-1], Abort)):
                gone += self._close_rewriter(number + 1)
            self.is_over = True
        return gone

    def _close_rewriter(self, number: int) -> list[Action]:
        gone: list[Action] = []
        for at in range(number, len(self.rewriters)):
            gone += self._feed_released(at, self.rewriters[at].close())
            if self.is_over:
                break
        return gone


def rewrite_response(burst: Burst, chain: RewriterChain) -> Burst:
    """A whole answer through the rules.

    Where one may change its length and means nothing by it, the length that is declared follows.
    Raises `TooMuch`.
    """
    looked_at = 0
    for rewriter in chain.rewriters:
        looked_at += len(burst)
        if looked_at > _MOST:
            raise RewritingTooExpensive
        rewriter.set_total_size(_actions_size(burst))
        alone = RewriterChain((rewriter,))
        gone = alone.feed(burst)
        if not _ends_in_abort(gone):
            gone += alone.close()
        if rewriter.changes_length and not _ends_in_abort(gone):
            longer = _actions_size(gone) - _actions_size(burst)
            gone = [_delay_action(action, longer) for action in gone]
        burst = tuple(gone)
    return burst


def _ends_in_abort(actions: Sequence[Action]) -> bool:
    return bool(actions) and isinstance(actions[-1], Abort)


def _actions_size(actions: Sequence[Action]) -> int:
    return sum(len(action.data) for action in actions if isinstance(action, Send))


def _delay_action(action: Action, by: int) -> Action:
    match action:
        case Begin(ResponseHead(framing="length", length=int(length)) as head):
            return Begin(replace(head, length=length + by))
        case _:
            return action


def without_content_length(action: Action) -> Action:
    """A head that declares no length, for a body whose length may come out otherwise."""
    if isinstance(action, Begin) and action.head.framing == "length":
        return Begin(replace(action.head, framing="chunked", length=None))
    return action
