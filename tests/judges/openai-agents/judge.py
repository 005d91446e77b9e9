"""Asks through the models of OpenAI's Agents SDK; `talking` says how.

Whatever the wire is, these models speak in the items and events of Responses.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any, Final

from agents import (
    FunctionTool,
    Model,
    ModelResponse,
    ModelSettings,
    ModelTracing,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    RunContextWrapper,
    set_tracing_disabled,
)
from framework_judge import Talk, main
from judge_protocol import KEY, PARAMETERS, TIMEOUT, TOOL, TOOL_SAYS, Ask, Heard
from openai import AsyncOpenAI

NOTHING_SAID: Final[dict[str, Any]] = {
    "output_schema": None,
    "handoffs": [],
    "tracing": ModelTracing.DISABLED,
    "previous_response_id": None,
    "conversation_id": None,
    "prompt": None,
}


async def _no_weather(_context: RunContextWrapper[Any], _arguments: str) -> str:
    raise AssertionError("a model is asked, and nobody runs its tools")


WEATHER: Final = FunctionTool(
    name=TOOL,
    description=TOOL_SAYS,
    params_json_schema=PARAMETERS,
    on_invoke_tool=_no_weather,
    strict_json_schema=False,
)

Chat = Callable[[str, AsyncOpenAI], Model]


def talk(chat: Chat, url: str, ask: Ask) -> Talk:
    """One question to a model, its answer whole or as events."""
    client = AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0, timeout=TIMEOUT)
    model = chat(ask.model, client)
    question: dict[str, Any] = {
        "system_instructions": None,
        "input": ask.say,
        "model_settings": ModelSettings(include_usage=True),
        "tools": [WEATHER] if ask.tools else [],
    }

    async def pieces() -> AsyncIterator[Any]:
        if ask.stream:
            async for event in model.stream_response(**question, **NOTHING_SAID):
                yield event
        else:
            yield await model.get_response(**question, **NOTHING_SAID)

    return Talk(pieces, hear_event if ask.stream else hear_whole)


def hear_event(heard: Heard, event: Any) -> None:
    """What one event of a stream adds."""
    match event.type:
        case "response.output_text.delta":
            heard.say(event.delta)
        case "response.refusal.delta":
            heard.refuse(event.delta)
        case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
            heard.think(event.delta)
        case "response.output_item.done" if event.item.type == "function_call":
            heard.call(event.item.call_id, event.item.name, event.item.arguments)
        case "response.completed" | "response.incomplete":
            hear_end(heard, event.response)
        case _:
            pass


def hear_end(heard: Heard, response: Any) -> None:
    """What the event that ends a stream adds."""
    details = response.incomplete_details
    heard.finish = details.reason if details else response.status
    if usage := response.usage:
        heard.count(usage.input_tokens, usage.output_tokens)


def hear_whole(heard: Heard, response: ModelResponse) -> None:
    """What a whole answer says; it has no word for how it ended."""
    for item in response.output:
        match item.type:
            case "message":
                for part in item.content:
                    if part.type == "refusal":
                        heard.refuse(part.refusal)
                    else:
                        heard.say(part.text)
            case "reasoning":
                heard.think("".join(part.text for part in item.summary))
                heard.think("".join(part.text for part in item.content or []))
            case "function_call":
                heard.call(item.call_id, item.name, item.arguments)
            case _:
                pass
    if response.usage.total_tokens:  # all are 0 where the wire told nothing
        heard.count(response.usage.input_tokens, response.usage.output_tokens)


set_tracing_disabled(disabled=True)
main(
    __file__,
    {
        "openai-chat": partial(talk, OpenAIChatCompletionsModel),
        "openai-responses": partial(talk, OpenAIResponsesModel),
    },
)
