"""Mocks: models that answer every request, by document 004's options.

`replies` come before `reply`, that before `respond`; without any it says what was said to it.
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import UNSET, UnsetType

from llm_proxy.dialects.encode_context import token_pieces
from llm_proxy.dialects.fakes import estimated_tokens
from llm_proxy.scenario.documents.document import MockReply, MockSpec
from llm_proxy.scenario.documents.fields import Span
from llm_proxy.scenario.engine import turns
from llm_proxy.scenario.engine.match_context import MatchContext
from llm_proxy.scenario.render.durations import draw_ms, gap_drawer
from llm_proxy.scenario.scripted_response import (
    ReportExhausted,
    ResponseTiming,
    ScriptedResponse,
    SendTurns,
)
from llm_proxy.turns import Part, Text, ToolCall, Turn


@dataclass(frozen=True, slots=True)
class MockRequest:
    """A call of a mock."""

    mock: MockSpec
    number: int
    """Which call of its session this is, from 1."""
    function_reply: MockReply | None = None
    """What the operator's function answers; None where there is none."""


def is_self_contained(mock: MockSpec) -> bool:
    """Whether no function is asked for what this mock says."""
    return mock.replies is not UNSET or mock.reply is not UNSET


def mock_response(called: MockRequest, cue: MatchContext) -> ScriptedResponse:
    """What to answer."""
    mock = called.mock
    source = f"mock {mock.name}"
    if mock.replies is not UNSET and called.number > len(mock.replies):
        return ScriptedResponse(
            ReportExhausted(_exhausted_response(called, len(mock.replies))), source
        )
    send_turns = SendTurns(
        (_reply_turn(_mock_reply(called, cue), mock, cue),), token_pieces, _mock_timing(mock, cue)
    )
    return ScriptedResponse(send_turns, source)


def _exhausted_response(called: MockRequest, count: int) -> str:
    replies = "1 reply" if count == 1 else f"{count} replies"
    return (
        f"The mock {called.mock.name!r} has {replies}, and this is call {called.number}: "
        "script another reply, or have the agent ask less often."
    )


def _mock_reply(called: MockRequest, cue: MatchContext) -> MockReply:
    mock = called.mock
    if mock.replies is not UNSET:
        reply = mock.replies[called.number - 1]
        return MockReply(content=reply) if isinstance(reply, str) else reply
    if mock.reply is not UNSET:
        return MockReply(content=mock.reply)
    return called.function_reply or MockReply(content=cue.conversation.last_user_text)


def _reply_turn(reply: MockReply, mock: MockSpec, cue: MatchContext) -> Turn:
    calls = (
        ToolCall(
            mock_call.id or f"call-{number}", mock_call.name, turns.json_stringify(mock_call.args)
        )
        for number, mock_call in enumerate(reply.tool_calls, 1)
    )
    parts: tuple[Part, ...] = (*((Text(reply.content),) if reply.content else ()), *calls)
    finish, raw = turns.finish_and_raw(reply.stop_reason or mock.stop_reason, parts)
    usage = mock.usage if reply.usage is None else reply.usage
    counted = turns.scripted_usage(
        usage, estimated_tokens(cue.conversation.prompt), estimated_tokens(reply.content)
    )
    return Turn(parts, finish, raw, counted, model=cue.model)


def _mock_timing(mock: MockSpec, cue: MatchContext) -> ResponseTiming:
    thinking: Span | UnsetType = mock.delay_ms if mock.thinking_ms is UNSET else mock.thinking_ms
    before = 0.0 if thinking is UNSET else draw_ms(thinking, cue.seed, "thinking")
    return ResponseTiming(before, gap_drawer(mock.chunk_delay_ms, cue.seed, "gap"))
