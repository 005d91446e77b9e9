"""Answers that faults have altered, as the official SDKs hear them: as they are meant.

What SDKs raise at each fault is in `docs/faults.md`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import anthropic
import ollama
import openai
import pytest

from fault_injection import TURN, answer_of, struck
from llm_proxy.modes import ModeResponse
from llm_proxy.routing import RoutedRequest
from llm_proxy.scenario.render.actions import immediate_actions
from scripted_server import directed
from sdk_clients import anthropic_client, openai_client

CITY: Final = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL: Final[dict[str, Any]] = {"name": "weather", "parameters": CITY}
FUNCTIONS: Final[list[Any]] = [{"type": "function", "function": TOOL}]
ASKED: Final[list[Any]] = [{"role": "user", "content": "What does a fox do?"}]
SORRY: Final = "I'm sorry, but I can't help with that."
LIMIT: Final = "max_output_tokens"
FAILED: Final = "The server had an error while processing your request."

SIGNS: Final = "stall-keepalive,after=3,interval=10ms,for=30ms"


@dataclass(slots=True)
class Spoiled:
    """Answers all the same, and by one rule otherwise."""

    rule: str = "refusal"
    name: str = "spoiled"

    async def respond(self, call: RoutedRequest) -> ModeResponse:
        """The answer as the rule leaves it."""
        burst, injection = struck(
            call.request, immediate_actions(answer_of(call.request, TURN)), self.rule
        )
        assert injection.records[0].skipped == ""
        return ModeResponse(burst, "spoiled")

    def reset(self, session: str) -> None:
        """Nothing counts here."""


async def chat(client: openai.AsyncOpenAI) -> Any:
    """Text and refusal, a call, finish and cost."""
    stream = await client.chat.completions.create(
        model="m",
        messages=ASKED,
        stream=True,
        stream_options={"include_usage": True},
        tools=FUNCTIONS,
    )
    chunks = [item async for item in stream]
    (finish,) = filter(None, (chunk.choices[0].finish_reason for chunk in chunks if chunk.choices))
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    said = "".join((delta.content or "") + (delta.refusal or "") for delta in deltas)
    calls = [item.function for delta in deltas for item in delta.tool_calls or () if item.function]
    name = "".join(item.name or "" for item in calls)
    arguments = "".join(item.arguments or "" for item in calls)
    usage = chunks[-1].usage
    return said, name, arguments, finish, usage and usage.completion_tokens


async def responses(client: openai.AsyncOpenAI) -> Any:
    """What the last event says, once all numbers have gone on by one."""
    tools: list[Any] = [{"type": "function", "strict": False, **TOOL}]
    stream = await client.responses.create(model="m", input="Hi", stream=True, tools=tools)
    events: list[Any] = [item async for item in stream]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    response = events[-1].response
    why = response.incomplete_details and response.incomplete_details.reason
    return response.output_text, response.status, why, [item.type for item in response.output]


async def message(client: anthropic.AsyncAnthropic) -> Any:
    """What the SDK makes of all events."""
    async with client.messages.stream(
        model="m",
        max_tokens=64,
        messages=ASKED,
        tools=[{"name": "weather", "input_schema": {**CITY}}],
    ) as stream:
        made = await stream.get_final_message()
    blocks = [item.to_dict(exclude_unset=True) for item in made.content]
    return blocks, made.stop_reason, made.usage.output_tokens


async def lines(client: ollama.AsyncClient) -> Any:
    """Text, calls, finish and cost."""
    stream = await client.chat(model="m", messages=ASKED, stream=True, tools=FUNCTIONS)
    parts = [item async for item in stream]
    calls = [item.function.name for part in parts for item in part.message.tool_calls or ()]
    said = "".join(part.message.content or "" for part in parts)
    return said, calls, parts[-1].done_reason, parts[-1].eval_count


def text(said: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": said}]


CHAT: Final = {
    "finish-length,after=4": ("The quick brown", "", "", "length", 4),
    "content-filter,after=3": ("The quick", "", "", "content_filter", 3),
    "refusal": (SORRY, "", "", "stop", 12),
    "bad-tool-call": ("", "weather", "{", "tool_calls", 12),
    "bad-tool-call,how=name": ("", "weather_v2", "{}", "tool_calls", 12),
    SIGNS: (TURN.text, "", "", "stop", 12),
}
RESPONSES: Final = {
    "finish-length,after=6": ("The quick", "incomplete", LIMIT, ["message"]),
    "finish-length,after=14": (TURN.text, "incomplete", LIMIT, ["message"]),
    "content-filter,after=2": ("", "incomplete", "content_filter", []),
    "refusal": ("", "completed", None, ["message"]),
    "bad-tool-call,how=missing": ("", "completed", None, ["function_call"]),
    SIGNS: (TURN.text, "completed", None, ["message"]),
}
MESSAGE: Final = {
    "finish-length,after=1": ([], "max_tokens", 0),
    "finish-length,after=2": (text(""), "max_tokens", 0),
    "finish-length,after=5": (text("The quick"), "max_tokens", 3),
    "finish-length,after=13": (text(TURN.text), "max_tokens", 11),
    "content-filter,after=5": (text("The quick"), "refusal", 3),
    "refusal": ([], "refusal", 12),
    SIGNS: (text(TURN.text), "end_turn", 12),
}
LINES: Final = {
    "finish-length,after=3": ("The quick brown", [], "length", 4),
    "refusal": (SORRY, [], "stop", 12),
    "bad-tool-call,how=name": ("", ["weather_v2"], "stop", 12),
}


async def check(
    mode: Spoiled,
    ask: Callable[[], Awaitable[Any]],
    told: Mapping[str, object],
    error: type[Exception],
) -> None:
    """An SDK hears what is told; where the provider fails, it raises its own error."""
    heard: dict[str, object] = {}
    for mode.rule in told:
        heard[mode.rule] = await ask()
    assert heard == told
    for after in (0, 1, 3, 8):
        mode.rule = f"error-event,after={after}"
        with pytest.raises(error, match=FAILED):
            await ask()


async def test_openais_sdk_hears_what_is_meant() -> None:
    mode = Spoiled()
    async with directed(mode) as stage, openai_client(stage.url) as client:
        await check(mode, lambda: chat(client), CHAT, openai.APIError)
        await check(mode, lambda: responses(client), RESPONSES, openai.APIError)


async def test_anthropics_sdk_hears_what_is_meant() -> None:
    mode = Spoiled()
    async with directed(mode) as stage, anthropic_client(stage.url) as client:
        await check(mode, lambda: message(client), MESSAGE, anthropic.APIStatusError)


async def test_ollamas_sdk_hears_what_is_meant() -> None:
    mode = Spoiled()
    async with directed(mode) as stage, ollama.AsyncClient(host=stage.url) as client:
        await check(mode, lambda: lines(client), LINES, ollama.ResponseError)
