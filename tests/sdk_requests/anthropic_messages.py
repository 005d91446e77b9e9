"""Anthropic's Messages API, by its SDK."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import anthropic

from llm_proxy.conversation import Conversation
from sdk_clients import anthropic_client
from sdk_requests.conversations import (
    ANSWER_SCHEMA,
    CITY_SCHEMA,
    PDF,
    PNG,
    PNG_URL,
    QUESTION,
    Arguments,
    Differences,
    carried_over,
    conversation,
)
from sdk_requests.judge_process import in_this_process

DIALECT: Final = "anthropic"
PROVIDER: Final = ""


async def _send(url: str, arguments: Arguments, *, stream: bool) -> None:
    """Send a request as a user of the SDK does."""
    async with anthropic_client(url) as client:
        with suppress(anthropic.APIStatusError):
            await client.messages.create(
                model="m", **{**arguments, **({"stream": True} if stream else {})}
            )


sender: Final = in_this_process(_send)

TOOLS: Final = [{"name": "weather", "description": "Current weather.", "input_schema": CITY_SCHEMA}]
MAX_TOKENS: Final = {"max_tokens": 8192}
"""What Anthropic's users have to set; the encoder's default."""
HELLO: Final = {"messages": [{"role": "user", "content": "Hello?"}]}
WIRE_CALLS: Final = [
    {"type": "tool_use", "id": call_id, "name": "weather", "input": {"city": city}}
    for call_id, city in (("call_1", "Rome"), ("call_2", "Oslo"))
]
WIRE_RESULTS: Final = [
    {"type": "tool_result", "tool_use_id": call_id, "content": content}
    for call_id, content in (("call_1", "21 °C"), ("call_2", "9 °C"))
]
RESPONSE: Final = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {"input_tokens": 1, "output_tokens": 1},
    "content": [
        {"type": "thinking", "thinking": "Look first.", "signature": "c2VhbA=="},
        {"type": "redacted_thinking", "data": "b3BhcXVl"},
        {"type": "text", "text": "One moment."},
        {
            "type": "server_tool_use",
            "id": "srvtoolu_1",
            "name": "web_search",
            "input": {"query": "weather"},
        },
        {
            "type": "web_search_tool_result",
            "tool_use_id": "srvtoolu_1",
            "content": [
                {
                    "type": "web_search_result",
                    "title": "Weather",
                    "url": "https://example.com/",
                    "encrypted_content": "eA==",
                }
            ],
        },
        WIRE_CALLS[0],
    ],
}

OWN_CONVERSATIONS: Final[Mapping[str, Conversation]] = {
    "the model's blocks, sent back": carried_over("anthropic", RESPONSE),
    "the options of anthropic": conversation(
        QUESTION, temperature=0, top_p=0.5, max_tokens=9, top_k=3, stop_sequences=("END",)
    ),
}
"""Rows that only this API has."""

CALLS: Final[Mapping[str, Arguments]] = {
    "a text": HELLO | MAX_TOKENS,
    "a system prompt": {"system": "Be brief.", **HELLO, **MAX_TOKENS},
    "system messages": {"system": "Be brief.\nBe kind.", **HELLO, **MAX_TOKENS},
    "several texts": {
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "Hello?"},
                    {"type": "text", "text": "Anybody?"},
                ],
            }
        ],
        **MAX_TOKENS,
    },
    "an image": {
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "What is it?"},
                    {
                        "type": "image",
                        "source": {"type": "base64", "media_type": "image/png", "data": PNG},
                    },
                ],
            }
        ],
        **MAX_TOKENS,
    },
    "an image by URL": {
        "messages": [
            {
                "role": "user",
                "content": [{"type": "image", "source": {"type": "url", "url": PNG_URL}}],
            }
        ],
        **MAX_TOKENS,
    },
    "a file": {
        "messages": [
            {
                "role": "user",
                "content": [
                    {
                        "type": "document",
                        "source": {
                            "type": "base64",
                            "media_type": "application/pdf",
                            "data": PDF,
                        },
                    }
                ],
            }
        ],
        **MAX_TOKENS,
    },
    "a file by URL": {
        "messages": [
            {
                "role": "user",
                "content": [
                    {
                        "type": "document",
                        "source": {"type": "url", "url": "https://example.com/a.pdf"},
                    }
                ],
            }
        ],
        **MAX_TOKENS,
    },
    "a history of three turns": {
        "messages": [
            {"role": "user", "content": "Hello?"},
            {"role": "assistant", "content": "Hi."},
            {"role": "user", "content": "Who?"},
            {"role": "assistant", "content": "Me."},
            {"role": "user", "content": "Bye."},
        ],
        **MAX_TOKENS,
    },
    "parallel tool calls": {
        "messages": [
            *HELLO["messages"],
            {"role": "assistant", "content": WIRE_CALLS},
            {"role": "user", "content": WIRE_RESULTS},
        ],
        "tools": TOOLS,
        **MAX_TOKENS,
    },
    "a text before a call, and a failed result": {
        "messages": [
            *HELLO["messages"],
            {
                "role": "assistant",
                "content": [{"type": "text", "text": "One moment."}, WIRE_CALLS[0]],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "call_1",
                        "content": '{"error":"offline"}',
                        "is_error": True,
                    }
                ],
            },
            {"role": "user", "content": "Again."},
        ],
        **MAX_TOKENS,
    },
    "the model's blocks, sent back": {
        "messages": [
            *HELLO["messages"],
            {
                "role": "assistant",
                "content": anthropic.types.Message.model_validate(RESPONSE).content,
            },
            {"role": "user", "content": WIRE_RESULTS[:1]},
        ],
        **MAX_TOKENS,
    },
    "reasoning with a signature": {
        "messages": [
            *HELLO["messages"],
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "Look first.", "signature": "c2VhbA=="},
                    {"type": "text", "text": "Hi."},
                ],
            },
            {"role": "user", "content": "Who?"},
        ],
        **MAX_TOKENS,
    },
    "a refusal": {
        "messages": [
            *HELLO["messages"],
            {"role": "assistant", "content": "No."},
            {"role": "user", "content": "Please."},
        ],
        **MAX_TOKENS,
    },
    "a tool without description and parameters": HELLO
    | MAX_TOKENS
    | {"tools": [{"name": "now", "input_schema": {"type": "object"}}]},
    **{
        f"the tool choice {choice}": HELLO
        | MAX_TOKENS
        | {"tools": TOOLS, "tool_choice": {"type": wire_choice}}
        for choice, wire_choice in (("auto", "auto"), ("none", "none"), ("required", "any"))
    },
    "a forced tool": HELLO
    | MAX_TOKENS
    | {"tools": TOOLS, "tool_choice": {"type": "tool", "name": "weather"}},
    "the options of anthropic": HELLO
    | {
        "max_tokens": 9,
        "stop_sequences": ["END"],
        "extra_body": {"temperature": 0, "top_p": 0.5, "top_k": 3},
    },
    "a response schema": HELLO
    | MAX_TOKENS
    | {"output_config": {"format": {"type": "json_schema", "schema": ANSWER_SCHEMA}}},
    "extra fields": HELLO | MAX_TOKENS | {"extra_body": {"user": "u", "metadata": {"a": "b"}}},
}
"""The keyword arguments of the SDK's call, without the model, by row."""

DIFFERENCES: Final[Differences] = {}
