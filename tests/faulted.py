"""Answers as values, and what rules make of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from llm_proxy.actions import Action, Begin, Burst, Send, Wait
from llm_proxy.dialects import named
from llm_proxy.dialects.base import Response
from llm_proxy.exchange import Request
from llm_proxy.faults.engine import Conditions, Injector
from llm_proxy.faults.grammar import rule_of
from llm_proxy.faults.request_faults import Injection
from llm_proxy.routing import Call, route
from llm_proxy.turns import Finish, Text, Turn, Usage
from speaking import DELIVERY

TURN = Turn(
    (Text("The quick brown fox jumps over the lazy dög."),),
    finish=Finish.STOP,
    usage=Usage(input=5, output=12),
    model="m",
)
"""What all these answers say: it has a character of two bytes."""

SILENCE = 9000.0
"""The longest silence, in ms."""

DIALECTS = {
    "sse": "openai-chat",
    "events": "anthropic",
    "ndjson": "ollama",
    "eventstream": "bedrock",
}
"""A dialect for each framing; `events` are those that have names."""


def asked(dialect: str = "openai-chat", *, stream: bool = True) -> Request:
    """A request for a turn."""
    return named(dialect).typical("m", stream=stream)


def call_of(request: Request, session: str = "default") -> Call:
    """The call that it makes."""
    call = route(request, 0.0, lambda: 0.0)
    return Call(
        call.request, call.plain, session, call.provider, call.dialect, call.arrived, call.now
    )


def answer_of(request: Request, turn: Turn = TURN) -> Response:
    """What a provider answers."""
    call = call_of(request)
    return call.dialect.speak(call.plain, (turn,), DELIVERY)


def burst_of(response: Response, pieces: Sequence[bytes] = (), gap: float = 10.0) -> Burst:
    """The answer as actions: a piece every `gap` ms, or a message where no pieces are given."""
    burst: list[Action] = [Wait(gap), Begin(response.head)]
    for number, piece in enumerate(pieces or response.messages, 2):
        burst += [Wait(gap * number), Send(piece)]
    return tuple(burst)


def cut(data: bytes, ends: Iterable[int]) -> list[bytes]:
    """The bytes, cut at these places."""
    places = sorted({0, len(data), *(end % (len(data) + 1) for end in ends)})
    return [data[begin:end] for begin, end in itertools.pairwise(places)]


def body(actions: Iterable[Action]) -> bytes:
    """The bytes of the body."""
    return b"".join(it.data for it in actions if isinstance(it, Send))


def injection(request: Request, *rules: str, seed: int = 0) -> Injection:
    """What strikes the first such request under these rules."""
    conditions = Conditions(seed=seed, silence=SILENCE)
    return Injector(map(rule_of, rules), conditions).meet(call_of(request), (), 0.0)


def struck(request: Request, burst: Burst, *rules: str) -> tuple[Burst, Injection]:
    """A whole answer as it goes out under these rules, and what has come of them."""
    meant = injection(request, *rules)
    instead = meant.instead()
    return meant.rewrite(burst if instead is None else instead), meant


def live(request: Request, burst: Burst, *rules: str) -> tuple[list[Action], Injection]:
    """The same answer, as if each action arrived alone and nobody knew the next."""
    meant = injection(request, *rules)
    chain, _ = meant.chain()
    gone: list[Action] = []
    for action in burst:
        if isinstance(action, Wait) and chain.alarm is not None and chain.alarm < action.due:
            gone += chain.tick(chain.alarm)
        gone += chain.feed([action])
        if chain.over:
            break
    return [*gone, *chain.close()], meant
