"""What strikes one request, and what has come of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from llm_proxy.actions import Burst, Send
from llm_proxy.errors import CannotSay
from llm_proxy.faults.injected import Injected
from llm_proxy.faults.kind import CannotInject, Instead, Met
from llm_proxy.faults.rewriting import Chain, Rewriter, rewritten
from llm_proxy.faults.rule import Rule
from llm_proxy.routing import Call


@dataclass(frozen=True, slots=True)
class Meant:
    """A rule that strikes, and what it is told of the request."""

    rule: Rule
    met: Met


class Injection:
    """The rules that strike one request, in their order."""

    def __init__(self, call: Call, ordinal: int) -> None:
        self.call = call
        self.ordinal = ordinal
        """How often this request has been asked in its session, with this time."""
        self._meant: list[Meant] = []
        self._done: list[Injected] = []
        self._rewriters: list[Rewriter] = []

    def __bool__(self) -> bool:
        """Whether any rule strikes."""
        return bool(self._meant)

    def mean(self, rules: Iterable[Meant]) -> None:
        """Let these strike, too."""
        self._meant += rules

    @property
    def injected(self) -> tuple[Injected, ...]:
        """What has come of it by now."""
        working = (it.injected for it in self._rewriters)
        return (*self._done, *(it for it in working if it is not None))

    def instead(self) -> Burst | None:
        """The answer that takes the place of the real one, where a rule has one."""
        answer: Burst | None = None
        left: list[Meant] = []
        for meant in self._meant:
            work = meant.rule.fault.work(meant.rule.place)
            if not isinstance(work, Instead):
                left.append(meant)
            elif answer is not None:
                self._note(meant.rule, work, "another fault has answered already")
            else:
                answer = self._answer(meant, work)
        self._meant = left
        return answer

    def rewrite(self, burst: Burst) -> Burst:
        """A whole answer as it goes out."""
        total = sum(len(it.data) for it in burst if isinstance(it, Send))
        chain, resizes = self.chain(total)
        return rewritten(burst, chain, resizes=resizes)

    def chain(self, total: int | None) -> tuple[Chain, bool]:
        """What an answer goes through, and whether its length may come out otherwise.

        `total` is the length of its body in bytes, where that is known beforehand.
        """
        rewriters: list[Rewriter] = []
        resizes = False
        for meant in self._meant:
            work = meant.rule.fault.work(meant.rule.place)
            if isinstance(work, Instead):  # a scenario's, beside another that has answered
                self._note(meant.rule, work, "the answer had begun")
                continue
            rewriters.append(Rewriter(meant.rule, work, meant.met, total))
            resizes = resizes or work.resizes
        self._rewriters += rewriters
        self._meant = []
        return Chain(rewriters), resizes

    def _answer(self, meant: Meant, work: Instead) -> Burst | None:
        try:
            answer = work.answer(meant.met)
        except (CannotInject, CannotSay) as why:
            self._note(meant.rule, work, str(why))
            return None
        self._note(meant.rule, work, "")
        return answer

    def _note(self, rule: Rule, work: Instead, why: str) -> None:
        effect = work.effect or rule.kind.effect
        self._done.append(Injected(rule.text, rule.kind.name, effect, skipped=why))
