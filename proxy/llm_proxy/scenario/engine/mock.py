"""Mocks: models that answer every request, with the options of document 004.

`replies` take precedence over `reply`, and that over `respond`; without any of them the mock echoes
the last user text.
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import UNSET, UnsetType

from llm_proxy.dialects.encode_context import token_pieces
from llm_proxy.dialects.estimates_and_fakes import estimated_token_count
from llm_proxy.scenario.documents.document import MillisecondsOrRange, MockReply, MockSpec
from llm_proxy.scenario.engine import turns
from llm_proxy.scenario.engine.match_context import MatchContext
from llm_proxy.scenario.pieces import draw_ms, gap_ms_drawer
from llm_proxy.scenario.scripted_response import (
    ReportScriptExhausted,
    ResponseTiming,
    ScriptedResponse,
    SendTurns,
)
from llm_proxy.turns import Part, Text, ToolCall, Turn


@dataclass(frozen=True, slots=True)
class MockInvocation:
    """One call of a mock within a session."""

    mock: MockSpec
    call_number: int
    """The number of the call in its session, from 1."""
    respond_function_reply: MockReply | None = None
    """The reply of the operator's function (`respond`); None if there is none."""


def has_scripted_replies(mock: MockSpec) -> bool:
    """Whether the mock has `replies` or `reply`, so that no function is called."""
    return mock.replies is not UNSET or mock.reply is not UNSET


def mock_response(invocation: MockInvocation, context: MatchContext) -> ScriptedResponse:
    """The response of a mock; `ReportScriptExhausted` after the last of its `replies`."""
    mock = invocation.mock
    origin = f"mock {mock.name}"
    if mock.replies is not UNSET and invocation.call_number > len(mock.replies):
        return ScriptedResponse(
            ReportScriptExhausted(_exhausted_message(invocation, len(mock.replies))), origin
        )
    send_turns = SendTurns(
        (_reply_turn(_mock_reply(invocation, context), mock, context),),
        token_pieces,
        _mock_timing(mock, context),
    )
    return ScriptedResponse(send_turns, origin)


def _exhausted_message(invocation: MockInvocation, reply_count: int) -> str:
    replies = "1 reply" if reply_count == 1 else f"{reply_count} replies"
    return (
        f"The mock {invocation.mock.name!r} has {replies}, and this is call "
        f"{invocation.call_number}: "
        "script another reply, or have the agent ask less often."
    )


def _mock_reply(invocation: MockInvocation, context: MatchContext) -> MockReply:
    mock = invocation.mock
    if mock.replies is not UNSET:
        reply = mock.replies[invocation.call_number - 1]
        return MockReply(content=reply) if isinstance(reply, str) else reply
    if mock.reply is not UNSET:
        return MockReply(content=mock.reply)
    return invocation.respond_function_reply or MockReply(
        content=context.conversation.last_user_text
    )


def _reply_turn(reply: MockReply, mock: MockSpec, context: MatchContext) -> Turn:
    tool_calls = (
        ToolCall(
            call_spec.id or f"call-{number}", call_spec.name, turns.json_stringify(call_spec.args)
        )
        for number, call_spec in enumerate(reply.tool_calls, 1)
    )
    parts: tuple[Part, ...] = (*((Text(reply.content),) if reply.content else ()), *tool_calls)
    finish_reason, raw_reason = turns.parse_finish_reason(
        reply.stop_reason or mock.stop_reason, parts
    )
    usage = mock.usage if reply.usage is None else reply.usage
    turn_usage = turns.scripted_usage(
        usage,
        estimated_token_count(context.conversation.prompt),
        estimated_token_count(reply.content),
    )
    return Turn(parts, finish_reason, raw_reason, turn_usage, model=context.model)


def _mock_timing(mock: MockSpec, context: MatchContext) -> ResponseTiming:
    thinking: MillisecondsOrRange | UnsetType = (
        mock.delay_ms if mock.thinking_ms is UNSET else mock.thinking_ms
    )
    thinking_ms = 0.0 if thinking is UNSET else draw_ms(thinking, context.seed, "thinking")
    return ResponseTiming(thinking_ms, gap_ms_drawer(mock.chunk_delay_ms, context.seed, "gap"))
