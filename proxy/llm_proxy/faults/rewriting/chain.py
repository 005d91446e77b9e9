"""Applies several rules to one response, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from llm_proxy.actions import Abort, Action, Begin, Burst, Send
from llm_proxy.exchange import ResponseHead
from llm_proxy.faults.rewriting.rewriter import RuleRewriter

_MAX_REWRITTEN_ACTIONS: Final = 300_000
"""Actions that the rules of one response may rewrite, added up: some seconds of work."""


class RewritingTooExpensive(Exception):
    """The rules of one response together rewrite too many actions."""

    def __init__(self) -> None:
        super().__init__("the rules of this answer make too much work together")


class RewriterChain:
    """Applies rules to the actions of a response; each rule gets the output of the one before."""

    def __init__(self, rewriters: Sequence[RuleRewriter]) -> None:
        self.rewriters = tuple(rewriters)
        self.is_over = False
        """Whether a rule has ended the response: no further action of its source is needed."""
        self._rewritten_count = 0

    @property
    def next_trigger_ms(self) -> float | None:
        """When the next rule located by time is due, even if no action arrives; None without one.

        In ms since the request was read in full.
        """
        trigger_times_ms = [
            rewriter.trigger_at_ms
            for rewriter in self.rewriters
            if rewriter.trigger_at_ms is not None
        ]
        return min(trigger_times_ms, default=None)

    def feed(self, actions: Sequence[Action]) -> list[Action]:
        """The actions that replace these.  Raises `RewritingTooExpensive`."""
        return self._feed_from(0, actions)

    def tick(self, now_ms: float) -> list[Action]:
        """The actions of rules that are due by now.  Raises `RewritingTooExpensive`."""
        output: list[Action] = []
        for index, rewriter in enumerate(self.rewriters):
            output += self._feed_after(index, rewriter.tick(now_ms))
            if self.is_over:
                break
        return output

    def close(self) -> list[Action]:
        """The actions to add before the clean end.  Raises `RewritingTooExpensive`."""
        return [] if self.is_over else self._close_from(0)

    def _feed_from(self, index: int, actions: Sequence[Action]) -> list[Action]:
        if index == len(self.rewriters):
            return list(actions)
        output: list[Action] = []
        self._rewritten_count += len(actions)
        if self._rewritten_count > _MAX_REWRITTEN_ACTIONS:
            raise RewritingTooExpensive
        for action in actions:
            output += self._feed_after(index, self.rewriters[index].feed(action))
            if self.is_over:
                break
        return output

    def _feed_after(self, index: int, actions: list[Action]) -> list[Action]:
        """Passes the output of one rule through those after it; closes them where it has ended."""
        ends_response = self.rewriters[index].is_over
        output = self._feed_from(index + 1, actions)
        if ends_response and not self.is_over:
            if not (actions and isinstance(actions[-1], Abort)):
                output += self._close_from(index + 1)
            self.is_over = True
        return output

    def _close_from(self, first_index: int) -> list[Action]:
        output: list[Action] = []
        for index in range(first_index, len(self.rewriters)):
            output += self._feed_after(index, self.rewriters[index].close())
            if self.is_over:
                break
        return output


def rewrite_response(burst: Burst, chain: RewriterChain) -> Burst:
    """Applies the rules to a complete response.

    The declared length is adapted for rules whose `changes_length` is set.  Raises
    `RewritingTooExpensive`.
    """
    rewritten_count = 0
    for rewriter in chain.rewriters:
        rewritten_count += len(burst)
        if rewritten_count > _MAX_REWRITTEN_ACTIONS:
            raise RewritingTooExpensive
        rewriter.set_total_bytes(_body_byte_count(burst))
        single_chain = RewriterChain((rewriter,))
        output = single_chain.feed(burst)
        if not _ends_in_abort(output):
            output += single_chain.close()
        if rewriter.changes_length and not _ends_in_abort(output):
            added_bytes = _body_byte_count(output) - _body_byte_count(burst)
            output = [_adjust_content_length(action, added_bytes) for action in output]
        burst = tuple(output)
    return burst


def _ends_in_abort(actions: Sequence[Action]) -> bool:
    return bool(actions) and isinstance(actions[-1], Abort)


def _body_byte_count(actions: Sequence[Action]) -> int:
    return sum(len(action.data) for action in actions if isinstance(action, Send))


def _adjust_content_length(action: Action, added_bytes: int) -> Action:
    match action:
        case Begin(ResponseHead(framing="length", content_length=int(length)) as head):
            return Begin(replace(head, content_length=length + added_bytes))
        case _:
            return action


def without_content_length(action: Action) -> Action:
    """A head without a declared length (chunked instead), for a body whose length may change."""
    if isinstance(action, Begin) and action.head.framing == "length":
        return Begin(replace(action.head, framing="chunked", content_length=None))
    return action
