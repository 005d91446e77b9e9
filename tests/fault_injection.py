"""Answers as values, and what rules make of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from dialect_manners import DELIVERY
from llm_proxy.actions import Action, Begin, Burst, Send, Wait
from llm_proxy.dialects import dialect_named
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.exchange import Request
from llm_proxy.faults.engine import FaultConditions, FaultEngine
from llm_proxy.faults.grammar import parse_rule
from llm_proxy.faults.request_faults import RequestFaults
from llm_proxy.routing import RoutedRequest, route
from llm_proxy.turns import Finish, Text, Turn, Usage

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
    return dialect_named(dialect).sample_request("m", stream=stream)


def call_of(request: Request, session: str = "default") -> RoutedRequest:
    """The call that it makes."""
    call = route(request, 0.0, lambda: 0.0)
    return RoutedRequest(
        call.request,
        call.decompressed,
        session,
        call.provider,
        call.dialect,
        call.arrived_at,
        call.received_time,
    )


def answer_of(request: Request, turn: Turn = TURN) -> DialectResponse:
    """What a provider answers."""
    call = call_of(request)
    return call.dialect.encode(call.decompressed, (turn,), DELIVERY)


def burst_of(response: DialectResponse, pieces: Sequence[bytes] = (), gap: float = 10.0) -> Burst:
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
    return b"".join(action.data for action in actions if isinstance(action, Send))


def injection(request: Request, *rules: str, seed: int = 0) -> RequestFaults:
    """What strikes the first such request under these rules."""
    conditions = FaultConditions(seed=seed, silence=SILENCE)
    return FaultEngine(map(parse_rule, rules), conditions).faults_for(call_of(request), (), 0.0)


def struck(request: Request, burst: Burst, *rules: str) -> tuple[Burst, RequestFaults]:
    """A whole answer as it goes out under these rules, and what has come of them."""
    meant = injection(request, *rules)
    instead = meant.replacement_response()
    return meant.rewrite_burst(burst if instead is None else instead), meant


def live(request: Request, burst: Burst, *rules: str) -> tuple[list[Action], RequestFaults]:
    """The same answer, as if each action arrived alone and nobody knew the next."""
    meant = injection(request, *rules)
    chain, _ = meant.rewriter_chain()
    gone: list[Action] = []
    for action in burst:
        if (
            isinstance(action, Wait)
            and chain.next_alarm_ms is not None
            and chain.next_alarm_ms < action.due
        ):
            gone += chain.tick(chain.next_alarm_ms)
        gone += chain.feed([action])
        if chain.is_over:
            break
    return [*gone, *chain.close()], meant
