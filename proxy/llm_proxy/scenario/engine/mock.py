"""Mocks: models that answer every request, with the options of document 004.

`replies` take precedence over `reply`, and that over `respond`; without any of them the mock echoes
the last user text.
"""

from __future__ import annotations

from msgspec import UNSET

from llm_proxy.dialects.encode_context import token_pieces
from llm_proxy.dialects.estimates_and_fakes import estimated_token_count
from llm_proxy.scenario.documents.document import MockReply, MockSpec
from llm_proxy.scenario.engine import turns
from llm_proxy.scenario.engine.matcher import MatchContext
from llm_proxy.scenario.scripted_response import (
    ReportScriptExhausted,
    ResponseTiming,
    ScriptedResponse,
    SendTurns,
    draw_ms,
    gap_ms_drawer,
)
from llm_proxy.turns import Part, Text, ToolCall, Turn


def has_scripted_replies(mock: MockSpec) -> bool:
    """Whether the mock has `replies` or `reply`, so that no function is called."""
    return mock.replies is not UNSET or mock.reply is not UNSET


def mock_response(
    mock: MockSpec, number: int, context: MatchContext, function_reply: MockReply | None = None
) -> ScriptedResponse:
    """The response of a mock to the call with this number in its session, from 1.

    `ReportScriptExhausted` after the last of its `replies`.  `function_reply` is that of the
    operator's function (`respond`); None if there is none.
    """
    origin = f"mock {mock.name}"
    if mock.replies is not UNSET:
        if number > len(mock.replies):
            replies = "1 reply" if len(mock.replies) == 1 else f"{len(mock.replies)} replies"
            message = (
                f"The mock {mock.name!r} has {replies}, and this is call {number}: "
                "script another reply, or have the agent ask less often."
            )
            return ScriptedResponse(ReportScriptExhausted(message), origin)
        scripted = mock.replies[number - 1]
        reply = MockReply(content=scripted) if isinstance(scripted, str) else scripted
    elif mock.reply is not UNSET:
        reply = MockReply(content=mock.reply)
    else:
        reply = function_reply or MockReply(content=context.conversation.last_user_text)
    tool_calls = (
        ToolCall(call.id or f"call-{index}", call.name, turns.json_stringify(call.args))
        for index, call in enumerate(reply.tool_calls, 1)
    )
    parts: tuple[Part, ...] = (*((Text(reply.content),) if reply.content else ()), *tool_calls)
    stop_reason = reply.stop_reason or mock.stop_reason
    finish_reason, raw_reason = turns.parse_finish_reason(stop_reason, parts)
    usage = turns.scripted_usage(
        mock.usage if reply.usage is None else reply.usage,
        estimated_token_count(context.conversation.prompt),
        estimated_token_count(reply.content),
    )
    turn = Turn(parts, finish_reason, raw_reason, usage, model=context.model)
    thinking = mock.delay_ms if mock.thinking_ms is UNSET else mock.thinking_ms
    timing = ResponseTiming(
        0.0 if thinking is UNSET else draw_ms(thinking, context.seed, "thinking"),
        gap_ms_drawer(mock.chunk_delay_ms, context.seed, "gap"),
    )
    return ScriptedResponse(SendTurns((turn,), token_pieces, timing), origin)
