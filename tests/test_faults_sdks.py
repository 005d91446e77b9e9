"""Responses altered by faults, as the official SDKs parse them.

What SDKs raise on each fault is in `docs/reference/faults.md`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import anthropic
import ollama
import openai
import pytest

from fault_injection import TURN, apply_faults, encoded_response
from llm_proxy.modes import ModeResponse
from llm_proxy.routing import RoutedRequest
from llm_proxy.scenario.scripted_response import immediate_actions
from scripted_server import serve_mode
from sdk_clients import anthropic_client, openai_client

CITY_SCHEMA: Final = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
}
TOOL: Final[dict[str, Any]] = {"name": "weather", "parameters": CITY_SCHEMA}
FUNCTIONS: Final[list[Any]] = [{"type": "function", "function": TOOL}]
MESSAGES: Final[list[Any]] = [{"role": "user", "content": "What does a fox do?"}]
REFUSAL_TEXT: Final = "I'm sorry, but I can't help with that."
LENGTH_REASON: Final = "max_output_tokens"
ERROR_MESSAGE: Final = "The server had an error while processing your request."

KEEP_ALIVE_RULE: Final = "stall-keepalive,after=3,interval=10ms,for=30ms"


@dataclass(slots=True)
class FaultedMode:
    """A mode that always sends the same response, altered by one rule."""

    rule: str = "refusal"
    name: str = "spoiled"

    async def respond(self, call: RoutedRequest) -> ModeResponse:
        """The response as the rule alters it."""
        burst, injection = apply_faults(
            call.request, immediate_actions(encoded_response(call.request, TURN)), self.rule
        )
        assert injection.records[0].skipped == ""
        return ModeResponse(burst, "spoiled")

    def reset_session(self, session: str) -> None:
        """Does nothing: the mode has no state."""


async def ask_chat(client: openai.AsyncOpenAI) -> Any:
    """Text and refusal, tool name, arguments, finish reason and completion tokens."""
    stream = await client.chat.completions.create(
        model="m",
        messages=MESSAGES,
        stream=True,
        stream_options={"include_usage": True},
        tools=FUNCTIONS,
    )
    chunks = [item async for item in stream]
    (finish,) = filter(None, (chunk.choices[0].finish_reason for chunk in chunks if chunk.choices))
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    text_and_refusal = "".join((delta.content or "") + (delta.refusal or "") for delta in deltas)
    calls = [item.function for delta in deltas for item in delta.tool_calls or () if item.function]
    name = "".join(item.name or "" for item in calls)
    arguments = "".join(item.arguments or "" for item in calls)
    usage = chunks[-1].usage
    return text_and_refusal, name, arguments, finish, usage and usage.completion_tokens


async def ask_responses(client: openai.AsyncOpenAI) -> Any:
    """The text, status, reason and item types of the last event; checks the sequence numbers."""
    tools: list[Any] = [{"type": "function", "strict": False, **TOOL}]
    stream = await client.responses.create(model="m", input="Hi", stream=True, tools=tools)
    events: list[Any] = [item async for item in stream]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    response = events[-1].response
    incomplete_reason = response.incomplete_details and response.incomplete_details.reason
    return (
        response.output_text,
        response.status,
        incomplete_reason,
        [item.type for item in response.output],
    )


async def ask_message(client: anthropic.AsyncAnthropic) -> Any:
    """The blocks, stop reason and output tokens of the message that the SDK assembles."""
    async with client.messages.stream(
        model="m",
        max_tokens=64,
        messages=MESSAGES,
        tools=[{"name": "weather", "input_schema": {**CITY_SCHEMA}}],
    ) as stream:
        final_message = await stream.get_final_message()
    blocks = [item.to_dict(exclude_unset=True) for item in final_message.content]
    return blocks, final_message.stop_reason, final_message.usage.output_tokens


async def ask_ollama(client: ollama.AsyncClient) -> Any:
    """Text, names of calls, done reason and eval count."""
    stream = await client.chat(model="m", messages=MESSAGES, stream=True, tools=FUNCTIONS)
    parts = [item async for item in stream]
    calls = [item.function.name for part in parts for item in part.message.tool_calls or ()]
    received_text = "".join(part.message.content or "" for part in parts)
    return received_text, calls, parts[-1].done_reason, parts[-1].eval_count


def text_blocks(content: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": content}]


CHAT_OUTCOMES: Final = {
    "finish-length,after=4": ("The quick brown", "", "", "length", 4),
    "content-filter,after=3": ("The quick", "", "", "content_filter", 3),
    "refusal": (REFUSAL_TEXT, "", "", "stop", 12),
    "bad-tool-call": ("", "weather", "{", "tool_calls", 12),
    "bad-tool-call,how=name": ("", "weather_v2", "{}", "tool_calls", 12),
    KEEP_ALIVE_RULE: (TURN.text, "", "", "stop", 12),
}
RESPONSES_OUTCOMES: Final = {
    "finish-length,after=6": ("The quick", "incomplete", LENGTH_REASON, ["message"]),
    "finish-length,after=14": (TURN.text, "incomplete", LENGTH_REASON, ["message"]),
    "content-filter,after=2": ("", "incomplete", "content_filter", []),
    "refusal": ("", "completed", None, ["message"]),
    "bad-tool-call,how=missing": ("", "completed", None, ["function_call"]),
    KEEP_ALIVE_RULE: (TURN.text, "completed", None, ["message"]),
}
MESSAGE_OUTCOMES: Final = {
    "finish-length,after=1": ([], "max_tokens", 0),
    "finish-length,after=2": (text_blocks(""), "max_tokens", 0),
    "finish-length,after=5": (text_blocks("The quick"), "max_tokens", 3),
    "finish-length,after=13": (text_blocks(TURN.text), "max_tokens", 11),
    "content-filter,after=5": (text_blocks("The quick"), "refusal", 3),
    "refusal": ([], "refusal", 12),
    KEEP_ALIVE_RULE: (text_blocks(TURN.text), "end_turn", 12),
}
OLLAMA_OUTCOMES: Final = {
    "finish-length,after=3": ("The quick brown", [], "length", 4),
    "refusal": (REFUSAL_TEXT, [], "stop", 12),
    "bad-tool-call,how=name": ("", ["weather_v2"], "stop", 12),
}


async def check_outcomes(
    mode: FaultedMode,
    ask: Callable[[], Awaitable[Any]],
    expected: Mapping[str, object],
    error: type[Exception],
) -> None:
    """The SDK returns the expected result for each rule, and raises its error on error events."""
    outcomes: dict[str, object] = {}
    for mode.rule in expected:
        outcomes[mode.rule] = await ask()
    assert outcomes == expected
    for after in (0, 1, 3, 8):
        mode.rule = f"error-event,after={after}"
        with pytest.raises(error, match=ERROR_MESSAGE):
            await ask()


async def test_openais_sdk_parses_the_faulted_responses() -> None:
    mode = FaultedMode()
    async with serve_mode(mode) as server, openai_client(server.url) as client:
        await check_outcomes(mode, lambda: ask_chat(client), CHAT_OUTCOMES, openai.APIError)
        await check_outcomes(
            mode, lambda: ask_responses(client), RESPONSES_OUTCOMES, openai.APIError
        )


async def test_anthropics_sdk_parses_the_faulted_responses() -> None:
    mode = FaultedMode()
    async with serve_mode(mode) as server, anthropic_client(server.url) as client:
        await check_outcomes(
            mode, lambda: ask_message(client), MESSAGE_OUTCOMES, anthropic.APIStatusError
        )


async def test_ollamas_sdk_parses_the_faulted_responses() -> None:
    mode = FaultedMode()
    async with serve_mode(mode) as server, ollama.AsyncClient(host=server.url) as client:
        await check_outcomes(
            mode, lambda: ask_ollama(client), OLLAMA_OUTCOMES, ollama.ResponseError
        )
