"""Conversations of `llm_chat` with a small model: recorded once, and replayed by the test suite.

    llm-proxy record --cassettes cassettes/chat -- python tests/chat_conversations.py

prints the events of each conversation.  The providers are those of the environment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Final

from llm_chat import (
    ChatClient,
    ChatEvent,
    ChatOptions,
    Message,
    ProviderRegistry,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    providers_from_environment,
)

PROVIDERS: Final = ("openai", "openai-responses", "anthropic")


def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"18 °C and light rain in {city}"


def save_note(title: str, text: str) -> str:
    """Save a note."""
    return f"saved {title}, {len(text)} characters"


@dataclass(frozen=True, slots=True)
class ChatConversation:
    """Prompts, each with the messages before it as its history."""

    prompts: tuple[str, ...]
    providers: tuple[str, ...]
    """The provider of each prompt."""
    options: ChatOptions
    history: tuple[Message, ...] = ()
    """What comes before the first prompt: examples, without which so small a model does not use the
    ReAct format."""


def options(**changes: object) -> ChatOptions:
    """Options for short responses without chance."""
    defaults = ChatOptions(
        model="smollm2-135m", tools=(), temperature=0, max_tokens=64, max_turns=3
    )
    return replace(defaults, **changes)  # type: ignore[arg-type] # any option


def example_of_tool_use(call: ToolCall, result: str, *texts: str) -> tuple[Message, ...]:
    """A prompt, a thought, a call, its result, and the answer."""
    prompt, thought, answer = texts
    return (
        Message("user", (Text(prompt),)),
        Message("assistant", (Reasoning(thought), call)),
        Message("tool", (ToolResult(call.id, result, call.name),)),
        Message("assistant", (Text(answer),)),
    )


WEATHER_EXAMPLE: Final = example_of_tool_use(
    ToolCall("call_1", "get_weather", '{"city":"Oslo"}'), '"2 °C and snow in Oslo"',
    "What is the weather in Oslo?", "I need the weather of Oslo.", "It is 2 °C in Oslo, with snow.",
)  # fmt: skip
NOTE_EXAMPLE: Final = example_of_tool_use(
    ToolCall("call_1", "save_note", '{"title":"milk","text":"Buy milk."}'), '"saved"',
    "Note that I need milk.", "I have to save a note.", "I saved the note.",
)  # fmt: skip


def conversations() -> Mapping[str, ChatConversation]:
    """All conversations by name."""
    by_name = {
        f"{provider}: {label}": conversation
        for provider in PROVIDERS
        for label, conversation in conversations_with(provider).items()
    }
    by_name["the history of another provider"] = ChatConversation(
        tuple(f"What is the weather in {city}?" for city in ("Rome", "Madrid", "Lima")),
        PROVIDERS,
        options(tools=("get_weather",), tool_choice="required"),
    )
    note = options(tools=("save_note",), react=True)
    by_name["ReAct, invalid JSON"] = ChatConversation(
        ('Note this: the sign says "Stop".',),
        ("openai",),
        # With its cache of prompts, the responses of llama.cpp depend on earlier requests.
        replace(note, temperature=0.8, seed=19, extra_fields={"cache_prompt": False}),
        NOTE_EXAMPLE,
    )
    by_name["ReAct, JSON cut off at a token limit"] = ChatConversation(
        ("Note this poem of two lines.",),
        ("anthropic",),
        replace(note, max_tokens=20, max_turns=2),
        NOTE_EXAMPLE,
    )
    return by_name


def conversations_with(provider: str) -> Mapping[str, ChatConversation]:
    """The conversations that are held with every provider, by label."""
    weather = options(tools=("get_weather",))
    return {
        "a question": ChatConversation(
            ("Name three colours of the rainbow.",), (provider,), options()
        ),
        "two questions": ChatConversation(
            ("What is a lighthouse? Answer in one sentence.", "And who keeps it?"),
            (provider, provider),
            options(),
        ),
        "a token limit": ChatConversation(
            ("Tell me a story about the sea.",), (provider,), options(max_tokens=12)
        ),
        "a tool": ChatConversation(
            ("What is the weather in Paris?",),
            (provider,),
            replace(weather, tool_choice="required"),
        ),
        "ReAct": ChatConversation(
            ("What is the weather in Paris?",),
            (provider,),
            replace(weather, react=True),
            WEATHER_EXAMPLE,
        ),
    }


async def hold_conversation(
    conversation: ChatConversation, registry: ProviderRegistry
) -> list[ChatEvent]:
    """The events of a conversation; closes the providers' connections."""
    events: list[ChatEvent] = []
    history = conversation.history
    async with ChatClient(registry, tools=(get_weather, save_note)) as client:
        for prompt, provider in zip(conversation.prompts, conversation.providers, strict=True):
            chat_options = replace(conversation.options, provider=provider)
            async with aclosing(client.chat(prompt, chat_options, history=history)) as chat:
                events += [event async for event in chat]
            history = tuple(client.messages)
    return events


async def main() -> None:
    """Hold all conversations, one after another."""
    for name, conversation in conversations().items():
        events = await hold_conversation(conversation, providers_from_environment())
        print(f"{name}:", *events, sep="\n    ")  # noqa: T201 # a program


if __name__ == "__main__":
    asyncio.run(main())
