"""A server whose answers are spoiled as a test says, and the verdict on who asked it.

What was done to an answer is noted in the journal's entry, as an injected fault is.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import orjson

from directing import Directed, Stage, directed
from llm_proxy.actions import Abort, Action, Burst, Send, Wait
from llm_proxy.faults.injected import Effect, Injected
from llm_proxy.modes import Answer
from llm_proxy.routing import Call
from llm_proxy.scenario.directions import Fail, FailureStatus, Say
from llm_proxy.turns import Finish, Text, Turn
from llm_proxy.verdict.attempts import read_run
from llm_proxy.verdict.judging import Verdict, verdict

SAID: Final = Say(
    (Turn((Text("Rivers are long, and some of them are wide."),), finish=Finish.STOP),)
)

Spoil = Callable[[list[Action]], list[Action]]


@dataclass(frozen=True, slots=True)
class Fault:
    """One way to spoil an answer."""

    name: str
    effect: Effect
    what: Say | Fail = SAID
    spoil: Spoil = list
    at_ms: float = 0.0


def status(number: int, retry_after_ms: float | None = None) -> Fault:
    """An HTTP error in place of the answer."""
    kind: FailureStatus = "rate_limit" if number == 429 else "thrown"
    fail = Fail(kind, retry_after_ms=retry_after_ms, error={"status": number})
    return Fault(f"status,code={number}", Effect.REFUSED, fail)


def _without_end(actions: list[Action]) -> list[Action]:
    """All but the last messages: that with the finish, the usage and what ends the stream."""
    sends = [it for it in actions if isinstance(it, Send)]
    kept = sends[: len(sends) // 2]
    return [it for it in actions if not isinstance(it, Send) or it in kept]


def _broken_amid(actions: list[Action]) -> list[Action]:
    """Half an event behind the first, and the others 300 ms later."""
    first = next(n for n, it in enumerate(actions) if isinstance(it, Send))
    broken = Send(b'data: {"choices":[{"index":\n\n')
    return [*actions[: first + 1], broken, Wait(300.0), *actions[first + 1 :]]


RESET: Final = Fault("reset", Effect.DISCONNECTED, spoil=lambda _: [Abort("rst")])
HANG: Final = Fault(
    "hang,for=300ms", Effect.UNANSWERED, spoil=lambda _: [Wait(300.0), Abort("fin")]
)
TRUNCATED: Final = Fault("truncate", Effect.TRUNCATED, spoil=_without_end)
CUT: Final = Fault(
    "close,after=1", Effect.CUT, spoil=lambda it: [*_without_end(it), Abort("rst")]
)  # fmt: skip
MALFORMED: Final = Fault("malformed-json,after=1", Effect.MALFORMED, spoil=_broken_amid)


@dataclass(frozen=True, slots=True)
class Spoiling:
    """The mode of such a server: the nth request of a session meets the nth of its faults."""

    faults: Sequence[Fault]
    name: str = "spoiling"
    met: list[tuple[Call, Fault]] = field(default_factory=list)

    async def answer(self, call: Call) -> Answer:
        """The answer of a model, spoiled where it is its turn."""
        before = sum(it.session == call.session for it, _ in self.met)
        fault = self.faults[before] if before < len(self.faults) else None
        answer = await Directed(lambda _: SAID if fault is None else fault.what).answer(call)
        if fault is None:
            return answer
        self.met.append((call, fault))
        assert isinstance(answer.source, tuple)
        burst: Burst = tuple(fault.spoil(list(answer.source)))
        return Answer(burst, "directed")

    def reset(self, session: str) -> None:
        """Nothing counts here."""


@dataclass(frozen=True, slots=True)
class Spoiled:
    """Where such a server is, and what is said of its clients."""

    url: str
    stage: Stage
    mode: Spoiling

    def session(self, name: str) -> str:
        """The address for a client of its own session."""
        return f"{self.url}/@{name}"

    def verdict(self, name: str) -> Verdict:
        """The verdict on one session."""
        entries = self.stage.entries(name)
        faults = [fault for call, fault in self.mode.met if call.session == name]
        for entry, fault in zip(entries, faults, strict=False):
            entry.faults = (Injected(fault.name, fault.name, fault.effect, fault.at_ms, event=1),)
        run = orjson.dumps({"requests": len(entries), "entries": entries})
        return verdict(read_run(run, "a test").entries)


@asynccontextmanager
async def spoiled(*faults: Fault) -> AsyncIterator[Spoiled]:
    """A running server of this kind."""
    mode = Spoiling(faults)
    async with directed(mode) as stage:
        yield Spoiled(stage.url, stage, mode)
