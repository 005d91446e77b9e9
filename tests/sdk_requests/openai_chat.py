"""Chat Completions, by OpenAI's SDK."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import openai
from openai.types.chat import ChatCompletion

from llm_proxy.conversation import Conversation
from sdk_clients import openai_client
from sdk_requests.conversations import (
    ANSWER_SCHEMA,
    FUNCTION,
    OSLO,
    PDF,
    PNG,
    PNG_URL,
    QUESTION,
    ROME,
    Arguments,
    Differences,
    carried_over,
    conversation,
)
from sdk_requests.judge_process import in_this_process

DIALECT: Final = "openai-chat"
PROVIDER: Final = ""


async def _send(url: str, arguments: Arguments, *, stream: bool) -> None:
    """Send a request as a user of the SDK does."""
    options = {"stream": True, "stream_options": {"include_usage": True}}
    async with openai_client(url) as client:
        with suppress(openai.APIStatusError):
            await client.chat.completions.create(
                model="m", **{**arguments, **(options if stream else {})}
            )


sender: Final = in_this_process(_send)

TOOLS: Final = [{"type": "function", "function": FUNCTION}]
HELLO: Final = {"messages": [{"role": "user", "content": "Hello?"}]}
WIRE_CALLS: Final = [
    {"id": call_id, "type": "function", "function": {"name": "weather", "arguments": arguments}}
    for call_id, arguments in (("call_1", ROME), ("call_2", OSLO))
]
WIRE_RESULTS: Final = [
    {"role": "tool", "tool_call_id": call_id, "content": content}
    for call_id, content in (("call_1", "21 °C"), ("call_2", "9 °C"))
]
RESPONSE: Final = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "logprobs": None,
            "message": {
                "role": "assistant",
                "content": None,
                "refusal": None,
                "annotations": [],
                "tool_calls": WIRE_CALLS[:1],
            },
        }
    ],
}

OWN_CONVERSATIONS: Final[Mapping[str, Conversation]] = {
    "the model's message, sent back": carried_over("openai-chat", RESPONSE),
    "the options of openai-chat": conversation(
        QUESTION,
        temperature=0,
        top_p=0.5,
        max_tokens=9,
        seed=7,
        stop_sequences=("END", "STOP"),
    ),
}
"""Rows that only this API has."""

CALLS: Final[Mapping[str, Arguments]] = {
    "a text": HELLO,
    "a system prompt": {
        "messages": [{"role": "system", "content": "Be brief."}, *HELLO["messages"]]
    },
    "system messages": {
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "system", "content": "Be kind."},
            *HELLO["messages"],
        ]
    },
    "several texts": {
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "Hello?"},
                    {"type": "text", "text": "Anybody?"},
                ],
            }
        ]
    },
    "an image": {
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "What is it?"},
                    {
                        "type": "image_url",
                        "image_url": {"url": f"data:image/png;base64,{PNG}"},
                    },
                ],
            }
        ]
    },
    "an image by URL": {
        "messages": [
            {
                "role": "user",
                "content": [{"type": "image_url", "image_url": {"url": PNG_URL}}],
            }
        ]
    },
    "a file": {
        "messages": [
            {
                "role": "user",
                "content": [
                    {
                        "type": "file",
                        "file": {
                            "filename": "file.pdf",
                            "file_data": f"data:application/pdf;base64,{PDF}",
                        },
                    }
                ],
            }
        ]
    },
    "audio": {
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "input_audio", "input_audio": {"data": "UklG", "format": "wav"}}
                ],
            }
        ]
    },
    "a history of three turns": {
        "messages": [
            {"role": "user", "content": "Hello?"},
            {"role": "assistant", "content": "Hi."},
            {"role": "user", "content": "Who?"},
            {"role": "assistant", "content": "Me."},
            {"role": "user", "content": "Bye."},
        ],
    },
    "parallel tool calls": {
        "messages": [
            *HELLO["messages"],
            {"role": "assistant", "content": None, "tool_calls": WIRE_CALLS},
            *WIRE_RESULTS,
        ],
        "tools": TOOLS,
    },
    "a text before a call, and a failed result": {
        "messages": [
            *HELLO["messages"],
            {"role": "assistant", "content": "One moment.", "tool_calls": WIRE_CALLS[:1]},
            {"role": "tool", "tool_call_id": "call_1", "content": '{"error":"offline"}'},
            {"role": "user", "content": "Again."},
        ]
    },
    "the model's message, sent back": {
        "messages": [
            *HELLO["messages"],
            ChatCompletion.model_validate(RESPONSE).choices[0].message,
            WIRE_RESULTS[0],
        ]
    },
    "a refusal": {
        "messages": [
            *HELLO["messages"],
            {"role": "assistant", "content": None, "refusal": "No."},
            {"role": "user", "content": "Please."},
        ]
    },
    "a tool without description and parameters": HELLO
    | {"tools": [{"type": "function", "function": {"name": "now"}}]},
    **{
        f"the tool choice {choice}": HELLO | {"tools": TOOLS, "tool_choice": choice}
        for choice in ("auto", "none", "required")
    },
    "a forced tool": HELLO
    | {
        "tools": TOOLS,
        "tool_choice": {"type": "function", "function": {"name": "weather"}},
    },
    "the options of openai-chat": HELLO
    | {
        "temperature": 0,
        "top_p": 0.5,
        "max_completion_tokens": 9,
        "seed": 7,
        "stop": ["END", "STOP"],
    },
    "a response schema": HELLO
    | {
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "response", "schema": ANSWER_SCHEMA},
        }
    },
    "any JSON object": HELLO | {"response_format": {"type": "json_object"}},
    "extra fields": HELLO | {"user": "u", "metadata": {"a": "b"}},
}
"""The keyword arguments of the SDK's call, without the model, by row."""

DIFFERENCES: Final[Differences] = {
    "the model's message, sent back": dict.fromkeys(
        ("messages[1].refusal", "messages[1].annotations"),
        "empty fields of the response say nothing",
    )
}
