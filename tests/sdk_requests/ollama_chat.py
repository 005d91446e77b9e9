"""Ollama's chats, by its SDK."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import ollama

from llm_proxy.conversation import Conversation
from sdk_requests.conversations import (
    ANSWER_SCHEMA,
    FUNCTION,
    PNG,
    QUESTION,
    Arguments,
    Differences,
    carried_over,
    conversation,
)
from sdk_requests.judge_process import in_this_process

DIALECT: Final = "ollama"
PROVIDER: Final = ""


async def _send(url: str, arguments: Arguments, *, stream: bool) -> None:
    """Send a request as a user of the SDK does."""
    async with ollama.AsyncClient(host=url) as client:
        with suppress(ollama.ResponseError):
            response: Any = await client.chat(model="m", stream=stream, **arguments)
            async for _ in response:
                pass


sender: Final = in_this_process(_send)

TOOLS: Final = [{"type": "function", "function": FUNCTION}]
NO_OPTIONS: Final[dict[str, Any]] = {"options": {}}
"""The options of an Ollama request, which the encoder always sends."""
HELLO: Final = {"messages": [{"role": "user", "content": "Hello?"}]}
WIRE_CALLS: Final = [
    {"id": call_id, "function": {"name": "weather", "arguments": {"city": city}}}
    for call_id, city in (("call_1", "Rome"), ("call_2", "Oslo"))
]
RESPONSE: Final = {
    "model": "m",
    "created_at": "2026-11-21T10:00:00Z",
    "done": True,
    "done_reason": "stop",
    "message": {
        "role": "assistant",
        "content": "One moment.",
        "thinking": "Look first.",
        "tool_calls": [{"function": {"name": "weather", "arguments": {"city": "Rome"}}}],
    },
}

OWN_CONVERSATIONS: Final[Mapping[str, Conversation]] = {
    "Ollama's message, sent back": carried_over("ollama", RESPONSE),
    "the options of ollama": conversation(
        QUESTION,
        temperature=0,
        top_p=0.5,
        max_tokens=9,
        top_k=3,
        repeat_penalty=1.1,
        seed=7,
        stop_sequences=("END",),
    ),
    "extra fields of ollama": conversation(
        QUESTION, extra_fields=(("keep_alive", "5m"), ("think", True))
    ),
}
"""Rows that only this API has."""

CALLS: Final[Mapping[str, Arguments]] = {
    "a text": HELLO | NO_OPTIONS,
    "a system prompt": {
        "messages": [{"role": "system", "content": "Be brief."}, *HELLO["messages"]],
        **NO_OPTIONS,
    },
    "several texts": {"messages": [{"role": "user", "content": "Hello?Anybody?"}], **NO_OPTIONS},
    "an image": {
        "messages": [{"role": "user", "content": "What is it?", "images": [PNG]}],
        **NO_OPTIONS,
    },
    "a history of three turns": {
        "messages": [
            {"role": "user", "content": "Hello?"},
            {"role": "assistant", "content": "Hi."},
            {"role": "user", "content": "Who?"},
            {"role": "assistant", "content": "Me."},
            {"role": "user", "content": "Bye."},
        ],
        **NO_OPTIONS,
    },
    "parallel tool calls": {
        "messages": [
            *HELLO["messages"],
            {"role": "assistant", "tool_calls": WIRE_CALLS},
            {"role": "tool", "tool_name": "weather", "content": "21 °C"},
            {"role": "tool", "tool_name": "weather", "content": "9 °C"},
        ],
        "tools": TOOLS,
        **NO_OPTIONS,
    },
    "a text before a call, and a failed result": {
        "messages": [
            *HELLO["messages"],
            {"role": "assistant", "content": "One moment.", "tool_calls": WIRE_CALLS[:1]},
            {"role": "tool", "tool_name": "weather", "content": '{"error":"offline"}'},
            {"role": "user", "content": "Again."},
        ],
        **NO_OPTIONS,
    },
    "Ollama's message, sent back": {
        "messages": [
            *HELLO["messages"],
            ollama.ChatResponse.model_validate(RESPONSE).message,
            {"role": "tool", "tool_name": "weather", "content": "21 °C"},
        ],
        **NO_OPTIONS,
    },
    "reasoning with a signature": {
        "messages": [
            *HELLO["messages"],
            {"role": "assistant", "thinking": "Look first.", "content": "Hi."},
            {"role": "user", "content": "Who?"},
        ],
        **NO_OPTIONS,
    },
    "a refusal": {
        "messages": [
            *HELLO["messages"],
            {"role": "assistant", "content": "No."},
            {"role": "user", "content": "Please."},
        ],
        **NO_OPTIONS,
    },
    "a tool without description and parameters": HELLO
    | NO_OPTIONS
    | {"tools": [{"type": "function", "function": {"name": "now"}}]},
    "the tool choice auto": HELLO | NO_OPTIONS | {"tools": TOOLS},
    "the tool choice none": HELLO | NO_OPTIONS,
    "the options of ollama": HELLO
    | {
        "options": {
            "temperature": 0,
            "top_p": 0.5,
            "num_predict": 9,
            "top_k": 3,
            "repeat_penalty": 1.1,
            "seed": 7,
            "stop": ["END"],
        }
    },
    "a response schema": HELLO | NO_OPTIONS | {"format": ANSWER_SCHEMA},
    "any JSON object": HELLO | NO_OPTIONS | {"format": "json"},
    "extra fields of ollama": HELLO | NO_OPTIONS | {"keep_alive": "5m", "think": True},
}
"""The keyword arguments of the SDK's call, without the model, by row."""

_DROPPED_ID: Final = "Ollama's servers accept ids, and its SDK drops them"

DIFFERENCES: Final[Differences] = {
    "parallel tool calls": dict.fromkeys(
        (
            "messages[1].tool_calls[0].id",
            "messages[1].tool_calls[1].id",
            "messages[2].tool_call_id",
            "messages[3].tool_call_id",
        ),
        _DROPPED_ID,
    ),
    "a text before a call, and a failed result": dict.fromkeys(
        ("messages[1].tool_calls[0].id", "messages[2].tool_call_id"), _DROPPED_ID
    ),
}
