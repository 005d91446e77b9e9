"""Chats of Mistral, by its SDK."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from llm_proxy.conversation import Conversation
from llm_proxy.turns import ToolCall, ToolResult
from sdk_requests import openai_chat
from sdk_requests.conversations import (
    FUNCTION,
    OSLO,
    PDF,
    QUESTION,
    ROME,
    Arguments,
    Differences,
    carried_over,
    conversation,
    message,
)
from sdk_requests.judge_process import in_judge
from sdk_requests.openai_chat import HELLO

DIALECT: Final = "openai-chat"
PROVIDER: Final = "mistral"

sender: Final = in_judge("mistralai")

TOOLS: Final = [{"type": "function", "function": FUNCTION}]
THINKING: Final = [
    {
        "type": "thinking",
        "thinking": [{"type": "text", "text": "Look first."}],
        "signature": "SIG",
        "closed": True,
    },
    {"type": "text", "text": "One moment."},
]
CALL_IDS: Final = ("74196fe72", "1b68f83fa")
"""The ids `call_1` and `call_2`, as Mistral accepts them."""


def wire_call(call_id: str, arguments: str) -> dict[str, Any]:
    return {"id": call_id, "function": {"name": "weather", "arguments": arguments}}


def wire_result(call_id: str, content: str) -> dict[str, Any]:
    return {"role": "tool", "name": "weather", "tool_call_id": call_id, "content": content}


OWN_CONVERSATIONS: Final[Mapping[str, Conversation]] = {
    "the options of the provider": openai_chat.options_of_provider(
        max_tokens=9, seed=7, stop_sequences=("END",), top_k=3, repeat_penalty=1.1
    ),
    "an id of Mistral": conversation(
        QUESTION,
        message("assistant", ToolCall("D681PevKs", "weather", ROME)),
        message("tool", ToolResult("D681PevKs", "21 °C")),
    ),
    "the beginning of the model's message": conversation(QUESTION, message("assistant", "It")),
    "reasoning, sent back": carried_over("openai-chat", openai_chat.response(content=THINKING)),
    "extra fields of Mistral": conversation(QUESTION, extra_fields=(("safe_prompt", True),)),
}

CALLS: Final[Mapping[str, Arguments]] = openai_chat.calls_of_provider(
    {
        "max_tokens": 9,
        "random_seed": 7,
        "stop": ["END"],
        "top_k": 3,
        "repetition_penalty": 1.1,
    },
    {
        "a file": {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "document_url",
                            "document_url": f"data:application/pdf;base64,{PDF}",
                        }
                    ],
                }
            ]
        },
        "a file by URL": {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "document_url", "document_url": "https://example.com/a.pdf"}
                    ],
                }
            ]
        },
        "audio": {
            "messages": [
                {"role": "user", "content": [{"type": "input_audio", "input_audio": "UklG"}]}
            ]
        },
        "parallel tool calls": {
            "messages": [
                *HELLO["messages"],
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [wire_call(CALL_IDS[0], ROME), wire_call(CALL_IDS[1], OSLO)],
                },
                wire_result(CALL_IDS[0], "21 °C"),
                wire_result(CALL_IDS[1], "9 °C"),
            ],
            "tools": TOOLS,
        },
        "a text before a call, and a failed result": {
            "messages": [
                *HELLO["messages"],
                {
                    "role": "assistant",
                    "content": "One moment.",
                    "tool_calls": [wire_call(CALL_IDS[0], ROME)],
                },
                wire_result(CALL_IDS[0], '{"error":"offline"}'),
                # Mistral refuses a user's message after a result.
                {"role": "assistant", "content": "OK"},
                {"role": "user", "content": "Again."},
            ]
        },
        "an id of Mistral": {
            "messages": [
                *HELLO["messages"],
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [wire_call("D681PevKs", ROME)],
                },
                wire_result("D681PevKs", "21 °C"),
            ]
        },
        "a tool without description and parameters": HELLO
        | {"tools": [{"type": "function", "function": {"name": "now", "parameters": {}}}]},
        "the tool choice required": HELLO | {"tools": TOOLS, "tool_choice": "any"},
        "the beginning of the model's message": {
            "messages": [
                *HELLO["messages"],
                {"role": "assistant", "content": "It", "prefix": True},
            ]
        },
        "reasoning, sent back": {
            "messages": [
                *HELLO["messages"],
                {
                    "role": "assistant",
                    "content": THINKING,
                    "tool_calls": [wire_call(CALL_IDS[0], ROME)],
                },
                wire_result(CALL_IDS[0], "21 °C"),
            ]
        },
        "extra fields of Mistral": HELLO | {"safe_prompt": True},
    },
    lacking=("extra fields",),
)

_DEFAULT_INDEX: Final = "0, whatever the position of the call"

DIFFERENCES: Final[Differences] = {
    "parallel tool calls": dict.fromkeys(
        ("messages[1].tool_calls[0].index", "messages[1].tool_calls[1].index"), _DEFAULT_INDEX
    ),
    "a text before a call, and a failed result": {
        "messages[1].tool_calls[0].index": _DEFAULT_INDEX
    },
    "an id of Mistral": {"messages[1].tool_calls[0].index": _DEFAULT_INDEX},
    "reasoning, sent back": {
        "messages[1].tool_calls[0].index": _DEFAULT_INDEX,
        "messages[1].content[0].closed": "the default",
    },
}
