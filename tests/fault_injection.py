"""Responses as actions, and fault rules applied to them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from dialect_manners import ENCODE_CONTEXT
from llm_proxy.actions import Abort, Action, Begin, Burst, Send, Wait
from llm_proxy.dialects import dialect_named
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.exchange import Request
from llm_proxy.faults.engine import FaultEngine, FaultEngineConfig, RequestFaults
from llm_proxy.faults.grammar import parse_rule
from llm_proxy.routing import RoutedRequest, route_request
from llm_proxy.turns import FinishReason, Text, Turn, Usage

TURN = Turn(
    (Text("The quick brown fox jumps over the lazy dög."),),
    finish=FinishReason.STOP,
    usage=Usage(input=5, output=12),
    model="m",
)
"""The turn of all these responses; its text has a character of two bytes."""

SILENCE_MS = 9000.0
"""The longest silence, in ms."""

DIALECTS_BY_FRAMING = {
    "sse": "openai-chat",
    "events": "anthropic",
    "ndjson": "ollama",
    "eventstream": "bedrock",
}
"""A dialect for each framing; `events` is SSE with event names."""


def turn_request(dialect: str = "openai-chat", *, stream: bool = True) -> Request:
    """A sample request of a dialect."""
    return dialect_named(dialect).sample_request("m", stream=stream)


def routed_request(request: Request, session: str = "default") -> RoutedRequest:
    """The request, routed, with this session."""
    call = route_request(request, 0.0, lambda: 0.0)
    return RoutedRequest(
        call.request,
        call.decompressed_request,
        session,
        call.provider,
        call.dialect,
        call.arrived_at_s,
        call.clock,
    )


def encoded_response(request: Request, turn: Turn = TURN) -> DialectResponse:
    """The response of a provider that sends this turn."""
    call = routed_request(request)
    return call.dialect.encode_response(call.decompressed_request, (turn,), ENCODE_CONTEXT)


def response_burst(
    response: DialectResponse, pieces: Sequence[bytes] = (), gap_ms: float = 10.0
) -> Burst:
    """The response as actions: a piece, or without pieces a message, every `gap_ms`."""
    burst: list[Action] = [Wait(gap_ms), Begin(response.head)]
    for number, piece in enumerate(pieces or response.framed_messages, 2):
        burst += [Wait(gap_ms * number), Send(piece)]
    return tuple(burst)


def split_at(data: bytes, ends: Iterable[int]) -> list[bytes]:
    """The bytes, split at these positions, taken modulo the length."""
    positions = sorted({0, len(data), *(end % (len(data) + 1) for end in ends)})
    return [data[begin:end] for begin, end in itertools.pairwise(positions)]


def sent_body(actions: Iterable[Action]) -> bytes:
    """The body bytes that these actions send."""
    return b"".join(action.data for action in actions if isinstance(action, Send))


def request_faults(request: Request, *rules: str, seed: int = 0) -> RequestFaults:
    """The faults for the first such request under these rules."""
    conditions = FaultEngineConfig(seed=seed, max_silence_ms=SILENCE_MS)
    return FaultEngine(map(parse_rule, rules), conditions).select_faults(
        routed_request(request), (), 0.0
    )


def apply_faults(request: Request, burst: Burst, *rules: str) -> tuple[Burst, RequestFaults]:
    """A known response as these rules rewrite it, and the applied faults."""
    faults = request_faults(request, *rules)
    replacement = faults.replacement_response()
    return faults.rewrite_response(burst if replacement is None else replacement), faults


def apply_faults_live(
    request: Request, burst: Burst, *rules: str
) -> tuple[list[Action], RequestFaults]:
    """The same for a live response: each action is rewritten before the next is known.

    As in the server, nothing follows an `Abort`, and the chain is closed at a clean end alone.
    """
    faults = request_faults(request, *rules)
    chain = faults.build_rewriter_chain()
    sent: list[Action] = []
    for action in burst:
        if (
            isinstance(action, Wait)
            and chain.next_trigger_ms is not None
            and chain.next_trigger_ms < action.due
        ):
            sent += chain.tick(chain.next_trigger_ms)
        sent += chain.feed([action])
        if chain.is_over or isinstance(action, Abort):
            return sent, faults
    return [*sent, *chain.close()], faults
