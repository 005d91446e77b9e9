"""Cohere's chats of version 2, by its SDK in the environment of its judge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from llm_proxy.conversation import Conversation
from sdk_requests.conversations import (
    ANSWER_SCHEMA,
    FUNCTION,
    OSLO,
    PNG,
    PNG_URL,
    QUESTION,
    ROME,
    Arguments,
    Differences,
    carried_over,
    conversation,
)
from sdk_requests.judge_process import in_judge

DIALECT: Final = "cohere"
PROVIDER: Final = ""

sender: Final = in_judge("cohere")

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
PLAN_MESSAGE: Final = {
    "role": "assistant",
    "tool_plan": "I will look up the weather.",
    "tool_calls": WIRE_CALLS[:1],
}
THOUGHT_MESSAGE: Final = {
    "role": "assistant",
    "content": [
        {"type": "thinking", "thinking": "Look first."},
        {"type": "text", "text": "One moment."},
    ],
    "tool_calls": WIRE_CALLS[:1],
}
DOCUMENTS: Final = ["Rome is warm.", {"id": "oslo", "data": {"text": "Oslo is cold."}}]

OWN_CONVERSATIONS: Final[Mapping[str, Conversation]] = {
    "a message with a plan, sent back": carried_over(
        "cohere", {"id": "1", "finish_reason": "TOOL_CALL", "message": PLAN_MESSAGE}
    ),
    "a message with thoughts": carried_over(
        "cohere", {"id": "1", "finish_reason": "TOOL_CALL", "message": THOUGHT_MESSAGE}
    ),
    "the options of cohere": conversation(
        QUESTION,
        temperature=0,
        top_p=0.5,
        max_tokens=9,
        top_k=3,
        seed=7,
        stop_sequences=("END", "STOP"),
    ),
    "extra fields of cohere": conversation(
        QUESTION,
        extra_fields=(
            ("documents", DOCUMENTS),
            ("thinking", {"type": "enabled", "token_budget": 100}),
            ("safety_mode", "OFF"),
        ),
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
            {"role": "assistant", "tool_calls": WIRE_CALLS},
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
    "a message with a plan, sent back": {
        "messages": [*HELLO["messages"], {"response": PLAN_MESSAGE}, WIRE_RESULTS[0]]
    },
    "a message with thoughts": {
        "messages": [*HELLO["messages"], {"response": THOUGHT_MESSAGE}, WIRE_RESULTS[0]]
    },
    "a refusal": {
        "messages": [
            *HELLO["messages"],
            {"role": "assistant", "content": "No."},
            {"role": "user", "content": "Please."},
        ]
    },
    "a tool without description and parameters": HELLO
    | {
        "tools": [
            {
                "type": "function",
                "function": {"name": "now", "parameters": {"type": "object", "properties": {}}},
            }
        ]
    },
    "the tool choice auto": HELLO | {"tools": TOOLS},
    "the tool choice none": HELLO | {"tools": TOOLS, "tool_choice": "NONE"},
    "the tool choice required": HELLO | {"tools": TOOLS, "tool_choice": "REQUIRED"},
    "the options of cohere": HELLO
    | {
        "temperature": 0,
        "p": 0.5,
        "max_tokens": 9,
        "k": 3,
        "seed": 7,
        "stop_sequences": ["END", "STOP"],
    },
    "a response schema": HELLO
    | {"response_format": {"type": "json_object", "json_schema": ANSWER_SCHEMA}},
    "any JSON object": HELLO | {"response_format": {"type": "json_object"}},
    "extra fields": HELLO
    | {"request_options": {"additional_body_parameters": {"user": "u", "metadata": {"a": "b"}}}},
    "extra fields of cohere": HELLO
    | {
        "documents": DOCUMENTS,
        "thinking": {"type": "enabled", "token_budget": 100},
        "safety_mode": "OFF",
    },
}
"""The keyword arguments of the SDK's call, without the model, by row.

A message in `response` is the SDK's own object of a response with this message.
"""

DIFFERENCES: Final[Differences] = {}
