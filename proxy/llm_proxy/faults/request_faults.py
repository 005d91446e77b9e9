"""What strikes one request, and what has come of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from llm_proxy.actions import Action, Begin, Burst, Send
from llm_proxy.errors import CannotSay
from llm_proxy.exchange import Head
from llm_proxy.faults.fault_record import Injected
from llm_proxy.faults.kind import Bend, CannotInject, Instead, Met, Working
from llm_proxy.faults.rewriting import Chain, Rewriter, rewritten
from llm_proxy.faults.rule import Rule
from llm_proxy.routing import Call


@dataclass(frozen=True, slots=True)
class Meant:
    """A rule that strikes, what it is told of the request, and how it works on it."""

    rule: Rule
    met: Met
    work: Working
    missed: Callable[[], None]
    """Is told where it came to nothing, so that it does not count."""


class Injection:
    """The rules that strike one request, in their order."""

    def __init__(self, call: Call, ordinal: int) -> None:
        self.call = call
        self.ordinal = ordinal
        """How often this request has been asked in its session, with this time."""
        self._meant: list[Meant] = []
        self._done: list[Injected] = []
        self._working: list[tuple[Rewriter, Meant]] = []
        self._afterwards: list[Callable[[Head, bytes], None]] = []

    def __bool__(self) -> bool:
        """Whether any rule strikes."""
        return bool(self._meant)

    def mean(self, rules: Iterable[Meant]) -> None:
        """Let these strike, too."""
        self._meant += rules

    @property
    def injected(self) -> tuple[Injected, ...]:
        """What has come of it by now."""
        working = (it.injected for it, _ in self._working if not it.is_quiet)
        return (*self._done, *(it for it in working if it is not None))

    def settle(self) -> tuple[Injected, ...]:
        """What has come of it in the end: of every rule that strikes."""
        for meant in self._meant:
            if not (isinstance(meant.work, Bend) and meant.work.quiet):
                self._note(meant, "there was no answer")
        self._meant = []
        for rewriter, meant in self._working:
            rewriter.settle()
            came_to_nothing = rewriter.injected is not None and rewriter.injected.skipped
            if came_to_nothing and not rewriter.is_quiet:  # which was never counted
                meant.missed()
        return self.injected

    def instead(self) -> Burst | None:
        """The answer that takes the place of the real one, where a rule has one."""
        answer: Burst | None = None
        left: list[Meant] = []
        for meant in self._meant:
            work = meant.work
            if not isinstance(work, Instead):
                left.append(meant)
            elif answer is not None:
                self._note(meant, "another fault has answered already")
            else:
                answer = self._answer(meant, work)
        self._meant = left
        return answer

    def abandon(self, why: str) -> None:
        """No rule has struck after all."""
        for rewriter, _ in self._working:
            rewriter.abandon(why)

    def rewrite(self, burst: Burst) -> Burst:
        """A whole answer as it goes out."""
        chain, _ = self.chain()
        return rewritten(burst, chain)

    def chain(self) -> tuple[Chain, bool]:
        """What an answer goes through, and whether its length may come out otherwise."""
        rewriters: list[Rewriter] = []
        resizes = False
        for meant in self._meant:
            work = meant.work
            if isinstance(work, Instead):  # a scenario's, beside another that has answered
                self._note(meant, "the answer had begun")
                continue
            rewriters.append(Rewriter(meant.rule, work, meant.met))
            self._working.append((rewriters[-1], meant))
            if isinstance(work, Bend) and work.afterwards is not None:
                self._afterwards.append(work.afterwards)
            resizes = resizes or rewriters[-1].resizes
        self._meant = []
        return Chain(rewriters), resizes

    @property
    def has_account(self) -> bool:
        """Whether any rule wants to know what goes out."""
        return bool(self._afterwards)

    def account(self, head: Head, body: bytes) -> None:
        """Tell them: this is what went out."""
        for afterwards in self._afterwards:
            afterwards(head, body)

    def _answer(self, meant: Meant, work: Instead) -> Burst | None:
        try:
            answer = work.answer(meant.met)
        except (CannotInject, CannotSay) as why:
            self._note(meant, str(why))
            return None
        self._note(meant, "")
        is_bodiless = meant.met.asked.request.method == "HEAD"
        return tuple(_without_body(answer)) if is_bodiless else answer

    def _note(self, meant: Meant, why: str) -> None:
        kind = meant.rule.kind
        effect = meant.work.effect or kind.effect
        self._done.append(Injected(meant.rule.text, kind.name, effect, skipped=why))
        if why:
            meant.missed()


def _without_body(answer: Burst) -> Iterable[Action]:
    """The answer to HEAD, which is a head alone."""
    for action in answer:
        match action:
            case Begin(head):
                yield Begin(replace(head, framing="none"))
            case Send():
                pass
            case _:
                yield action
