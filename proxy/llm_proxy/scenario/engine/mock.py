"""A mock: a model that answers whatever is asked, by document 004's options.

`replies` come before `reply`, that before `respond`; without any it says what was said to it.
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import UNSET, UnsetType

from llm_proxy.dialects.encode_context import pieces
from llm_proxy.dialects.fakes import tokens
from llm_proxy.scenario.documents.document import Mock, Reply
from llm_proxy.scenario.documents.fields import Span
from llm_proxy.scenario.engine import turns
from llm_proxy.scenario.engine.match_context import Cue
from llm_proxy.scenario.render.durations import drawn, gap
from llm_proxy.scenario.scripted_response import Direction, Exhausted, Say, Timing
from llm_proxy.turns import Part, Text, ToolCall, Turn


@dataclass(frozen=True, slots=True)
class MockCalled:
    """A call of a mock."""

    mock: Mock
    number: int
    """Which call of its session this is, from 1."""
    responded: Reply | None = None
    """What the operator's function answers; None where there is none."""


def answers_itself(mock: Mock) -> bool:
    """Whether no function is asked for what this mock says."""
    return mock.replies is not UNSET or mock.reply is not UNSET


def direct(called: MockCalled, cue: Cue) -> Direction:
    """What to answer."""
    mock = called.mock
    source = f"mock {mock.name}"
    if mock.replies is not UNSET and called.number > len(mock.replies):
        return Direction(Exhausted(_exhausted(called, len(mock.replies))), source)
    said = Say((_turn(_reply(called, cue), mock, cue),), pieces, _timing(mock, cue))
    return Direction(said, source)


def _exhausted(called: MockCalled, count: int) -> str:
    replies = "1 reply" if count == 1 else f"{count} replies"
    return (
        f"The mock {called.mock.name!r} has {replies}, and this is call {called.number}: "
        "script another reply, or have the agent ask less often."
    )


def _reply(called: MockCalled, cue: Cue) -> Reply:
    mock = called.mock
    if mock.replies is not UNSET:
        reply = mock.replies[called.number - 1]
        return Reply(content=reply) if isinstance(reply, str) else reply
    if mock.reply is not UNSET:
        return Reply(content=mock.reply)
    return called.responded or Reply(content=cue.conversation.last_user_text)


def _turn(reply: Reply, mock: Mock, cue: Cue) -> Turn:
    calls = (
        ToolCall(it.id or f"call-{number}", it.name, turns.stringified(it.args))
        for number, it in enumerate(reply.tool_calls, 1)
    )
    parts: tuple[Part, ...] = (*((Text(reply.content),) if reply.content else ()), *calls)
    finish, raw = turns.finish_of(reply.stop_reason or mock.stop_reason, parts)
    usage = mock.usage if reply.usage is None else reply.usage
    counted = turns.usage_of(usage, tokens(cue.conversation.prompt), tokens(reply.content))
    return Turn(parts, finish, raw, counted, model=cue.model)


def _timing(mock: Mock, cue: Cue) -> Timing:
    thinking: Span | UnsetType = mock.delay_ms if mock.thinking_ms is UNSET else mock.thinking_ms
    before = 0.0 if thinking is UNSET else drawn(thinking, cue.seed, "thinking")
    return Timing(before, gap(mock.chunk_delay_ms, cue.seed, "gap"))
