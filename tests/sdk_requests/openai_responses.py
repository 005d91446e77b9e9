"""The Responses API, by OpenAI's SDK."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import openai
from openai.types.responses import Response

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

DIALECT: Final = "openai-responses"
PROVIDER: Final = ""


async def _send(url: str, arguments: Arguments, *, stream: bool) -> None:
    """Send a request as a user of the SDK does."""
    async with openai_client(url) as client:
        with suppress(openai.APIStatusError):
            await client.responses.create(
                model="m", **{**arguments, **({"stream": True} if stream else {})}
            )


sender: Final = in_this_process(_send)

TOOLS: Final = [{"type": "function", **FUNCTION, "strict": False}]
HELLO: Final = {"input": [{"role": "user", "content": "Hello?"}]}
WIRE_CALLS: Final = [
    {"type": "function_call", "call_id": call_id, "name": "weather", "arguments": arguments}
    for call_id, arguments in (("call_1", ROME), ("call_2", OSLO))
]
WIRE_RESULTS: Final = [
    {"type": "function_call_output", "call_id": call_id, "output": content}
    for call_id, content in (("call_1", "21 °C"), ("call_2", "9 °C"))
]
RESPONSE: Final = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "status": "completed",
    "model": "m",
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "output": [
        {"id": "rs_0", "type": "reasoning", "summary": []},
        {
            "id": "rs_1",
            "type": "reasoning",
            "summary": [
                {"type": "summary_text", "text": "Look first."},
                {"type": "summary_text", "text": "Then answer."},
            ],
            "encrypted_content": "gAAAAAB",
        },
        {
            "id": "msg_1",
            "type": "message",
            "status": "completed",
            "role": "assistant",
            "phase": "commentary",
            "content": [
                {
                    "type": "output_text",
                    "text": "One moment.",
                    "annotations": [
                        {
                            "type": "url_citation",
                            "start_index": 0,
                            "end_index": 3,
                            "url": "https://example.com/",
                            "title": "Weather",
                        }
                    ],
                    "logprobs": [],
                }
            ],
        },
        {
            "id": "ws_1",
            "type": "web_search_call",
            "status": "completed",
            "action": {"type": "search", "query": "weather"},
        },
        {
            "id": "fc_1",
            "type": "function_call",
            "status": "completed",
            **{name: WIRE_CALLS[0][name] for name in ("call_id", "name", "arguments")},
        },
    ],
}

OWN_CONVERSATIONS: Final[Mapping[str, Conversation]] = {
    "the model's items, sent back": carried_over("openai-responses", RESPONSE),
    "the options of openai-responses": conversation(
        QUESTION, temperature=0, top_p=0.5, max_tokens=9
    ),
    "a stored response": conversation(QUESTION, previous_response_id="resp_1"),
    "a stored conversation": conversation(QUESTION, stored_conversation_id="conv_1"),
}
"""Rows that only this API has."""

CALLS: Final[Mapping[str, Arguments]] = {
    "a text": HELLO,
    "a system prompt": {"instructions": "Be brief.", **HELLO},
    "system messages": {
        "input": [
            {"role": "system", "content": "Be brief."},
            {"role": "system", "content": "Be kind."},
            *HELLO["input"],
        ]
    },
    "several texts": {
        "input": [
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "Hello?"},
                    {"type": "input_text", "text": "Anybody?"},
                ],
            }
        ]
    },
    "an image": {
        "input": [
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "What is it?"},
                    {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"},
                ],
            }
        ]
    },
    "an image by URL": {
        "input": [{"role": "user", "content": [{"type": "input_image", "image_url": PNG_URL}]}]
    },
    "a file": {
        "input": [
            {
                "role": "user",
                "content": [
                    {
                        "type": "input_file",
                        "filename": "file.pdf",
                        "file_data": f"data:application/pdf;base64,{PDF}",
                    }
                ],
            }
        ]
    },
    "a file by URL": {
        "input": [
            {
                "role": "user",
                "content": [{"type": "input_file", "file_url": "https://example.com/a.pdf"}],
            }
        ]
    },
    "audio": {
        "input": [
            {
                "role": "user",
                "content": [
                    {"type": "input_audio", "input_audio": {"data": "UklG", "format": "wav"}}
                ],
            }
        ]
    },
    "a history of three turns": {
        "input": [
            {"role": "user", "content": "Hello?"},
            {"type": "message", "role": "assistant", "content": "Hi."},
            {"role": "user", "content": "Who?"},
            {"type": "message", "role": "assistant", "content": "Me."},
            {"role": "user", "content": "Bye."},
        ],
    },
    "parallel tool calls": {
        "input": [*HELLO["input"], *WIRE_CALLS, *WIRE_RESULTS],
        "tools": TOOLS,
    },
    "a text before a call, and a failed result": {
        "input": [
            *HELLO["input"],
            {"type": "message", "role": "assistant", "content": "One moment."},
            WIRE_CALLS[0],
            {
                "type": "function_call_output",
                "call_id": "call_1",
                "output": '{"error":"offline"}',
            },
            {"role": "user", "content": "Again."},
        ]
    },
    "the model's items, sent back": {
        "input": [
            *HELLO["input"],
            *Response.model_validate(RESPONSE).output,
            WIRE_RESULTS[0],
        ]
    },
    "a refusal": {
        "input": [
            *HELLO["input"],
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "refusal", "refusal": "No."}],
            },
            {"role": "user", "content": "Please."},
        ]
    },
    "a tool without description and parameters": HELLO
    | {"tools": [{"type": "function", "name": "now", "parameters": None, "strict": False}]},
    **{
        f"the tool choice {choice}": HELLO | {"tools": TOOLS, "tool_choice": choice}
        for choice in ("auto", "none", "required")
    },
    "a forced tool": HELLO
    | {"tools": TOOLS, "tool_choice": {"type": "function", "name": "weather"}},
    "the options of openai-responses": HELLO
    | {"temperature": 0, "top_p": 0.5, "max_output_tokens": 9},
    "a response schema": HELLO
    | {"text": {"format": {"type": "json_schema", "name": "response", "schema": ANSWER_SCHEMA}}},
    "any JSON object": HELLO | {"text": {"format": {"type": "json_object"}}},
    "a stored response": HELLO | {"previous_response_id": "resp_1"},
    "a stored conversation": HELLO | {"conversation": "conv_1"},
    "extra fields": HELLO | {"user": "u", "metadata": {"a": "b"}},
}
"""The keyword arguments of the SDK's call, without the model, by row."""

DIFFERENCES: Final[Differences] = {}
