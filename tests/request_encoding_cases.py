"""Conversations, and the calls of the official SDKs that make the same requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import anthropic
import ollama
import orjson
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

from llm_proxy.conversation import Conversation, ForcedTool, RequestMessage, Role, ToolDefinition
from llm_proxy.dialects import DialectResponse, dialect_named
from llm_proxy.exchange import ResponseHead
from llm_proxy.turns import Media, Part, Refusal, Text, ToolCall, ToolResult

Arguments = Mapping[str, Any]
"""The keyword arguments of an SDK's call, without the model."""


@dataclass(frozen=True)
class RequestCase:
    """A conversation, and the call of each SDK that makes its request; None if that has none."""

    conversation: Conversation
    chat: Arguments | None = None
    responses: Arguments | None = None
    anthropic: Arguments | None = None
    ollama: Arguments | None = None
    differences: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The paths of values that differ on purpose, with the reason, by dialect."""

    def calls(self) -> dict[str, Arguments | None]:
        """The calls by dialect."""
        return {
            "openai-chat": self.chat,
            "openai-responses": self.responses,
            "anthropic": self.anthropic,
            "ollama": self.ollama,
        }


def message(role: Role, *parts: Part | str) -> RequestMessage:
    """A message; strings are texts."""
    return RequestMessage(
        role, tuple(Text(part) if isinstance(part, str) else part for part in parts)
    )


def conversation(*messages: RequestMessage, **fields: Any) -> Conversation:
    return Conversation(messages, model="m", **fields)


def parts_of_response(dialect: str, document: Arguments) -> tuple[Part, ...]:
    """The parts of a response that does not stream."""
    head = ResponseHead(200, "OK", (("Content-Type", "application/json"),), "length")
    response = DialectResponse(head, "whole", (orjson.dumps(document),))
    [turn] = dialect_named(dialect).decode_response(response)
    return turn.parts


PNG: Final = "iVBORw0KGgo="
PDF: Final = "JVBERi0="
PNG_URL: Final = "https://example.com/cat.png"
CITY_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"city": {"type": "string", "description": "The city."}},
    "required": ["city"],
}
ANSWER_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"warm": {"type": "boolean"}},
    "required": ["warm"],
    "additionalProperties": False,
}
WEATHER: Final = ToolDefinition("weather", "Current weather.", CITY_SCHEMA)
FUNCTION: Final = {
    "name": "weather",
    "description": "Current weather.",
    "parameters": CITY_SCHEMA,
}
CHAT_TOOLS: Final = [{"type": "function", "function": FUNCTION}]
RESPONSES_TOOLS: Final = [{"type": "function", **FUNCTION, "strict": False}]
ANTHROPIC_TOOLS: Final = [
    {"name": "weather", "description": "Current weather.", "input_schema": CITY_SCHEMA}
]
MAX_TOKENS: Final = {"max_tokens": 8192}
"""What Anthropic's users have to set; the encoder's default."""
NO_OPTIONS: Final[dict[str, Any]] = {"options": {}}
"""The options of an Ollama request, which the encoder always sends."""
HELLO: Final = {"messages": [{"role": "user", "content": "Hello?"}]}
HELLO_INPUT: Final = {"input": [{"role": "user", "content": "Hello?"}]}
QUESTION: Final = message("user", "Hello?")

ROME: Final = '{"city":"Rome"}'
OSLO: Final = '{"city":"Oslo"}'
CALLS: Final = message(
    "assistant", ToolCall("call_1", "weather", ROME), ToolCall("call_2", "weather", OSLO)
)
CHAT_CALLS: Final = [
    {"id": call_id, "type": "function", "function": {"name": "weather", "arguments": arguments}}
    for call_id, arguments in (("call_1", ROME), ("call_2", OSLO))
]
RESPONSES_CALLS: Final = [
    {"type": "function_call", "call_id": call_id, "name": "weather", "arguments": arguments}
    for call_id, arguments in (("call_1", ROME), ("call_2", OSLO))
]
ANTHROPIC_CALLS: Final = [
    {"type": "tool_use", "id": call_id, "name": "weather", "input": {"city": city}}
    for call_id, city in (("call_1", "Rome"), ("call_2", "Oslo"))
]
OLLAMA_CALLS: Final = [
    {"id": call_id, "function": {"name": "weather", "arguments": {"city": city}}}
    for call_id, city in (("call_1", "Rome"), ("call_2", "Oslo"))
]
_DROPPED_ID: Final = "Ollama's servers accept ids, and its SDK drops them"


def dropped_ids(*paths: str) -> Mapping[str, Mapping[str, str]]:
    return {"ollama": dict.fromkeys(paths, _DROPPED_ID)}


CHAT_RESPONSE: Final = {
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
                "tool_calls": CHAT_CALLS[:1],
            },
        }
    ],
}
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
            **{name: RESPONSES_CALLS[0][name] for name in ("call_id", "name", "arguments")},
        },
    ],
}
ANTHROPIC_RESPONSE: Final = {
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
        ANTHROPIC_CALLS[0],
    ],
}
OLLAMA_RESPONSE: Final = {
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


def carried_over(dialect: str, document: Arguments) -> Conversation:
    """A question, the model's response, and the result of its call."""
    parts = parts_of_response(dialect, document)
    [*_, call] = (part for part in parts if isinstance(part, ToolCall))
    result = ToolResult(call.id, "21 °C", call.name)
    return conversation(QUESTION, RequestMessage("assistant", parts), message("tool", result))


RESULT_MESSAGE: Final = message("tool", ToolResult("call_1", "21 °C"), ToolResult("call_2", "9 °C"))
CHAT_RESULTS: Final = [
    {"role": "tool", "tool_call_id": call_id, "content": content}
    for call_id, content in (("call_1", "21 °C"), ("call_2", "9 °C"))
]
RESPONSES_RESULTS: Final = [
    {"type": "function_call_output", "call_id": call_id, "output": content}
    for call_id, content in (("call_1", "21 °C"), ("call_2", "9 °C"))
]
ANTHROPIC_RESULTS: Final = [
    {"type": "tool_result", "tool_use_id": call_id, "content": content}
    for call_id, content in (("call_1", "21 °C"), ("call_2", "9 °C"))
]

CASES: Final[Mapping[str, RequestCase]] = {
    "a text": RequestCase(
        conversation(QUESTION),
        chat=HELLO,
        responses=HELLO_INPUT,
        anthropic=HELLO | MAX_TOKENS,
        ollama=HELLO | NO_OPTIONS,
    ),
    "a system prompt": RequestCase(
        conversation(QUESTION, system="Be brief."),
        chat={"messages": [{"role": "system", "content": "Be brief."}, *HELLO["messages"]]},
        responses={"instructions": "Be brief.", **HELLO_INPUT},
        anthropic={"system": "Be brief.", **HELLO, **MAX_TOKENS},
        ollama={
            "messages": [{"role": "system", "content": "Be brief."}, *HELLO["messages"]],
            **NO_OPTIONS,
        },
    ),
    "system messages": RequestCase(
        conversation(message("system", "Be brief."), message("system", "Be kind."), QUESTION),
        chat={
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "system", "content": "Be kind."},
                *HELLO["messages"],
            ]
        },
        responses={
            "input": [
                {"role": "system", "content": "Be brief."},
                {"role": "system", "content": "Be kind."},
                *HELLO_INPUT["input"],
            ]
        },
        anthropic={"system": "Be brief.\nBe kind.", **HELLO, **MAX_TOKENS},
    ),
    "several texts": RequestCase(
        conversation(message("user", "Hello?", "Anybody?")),
        chat={
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
        responses={
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
        anthropic={
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
        ollama={"messages": [{"role": "user", "content": "Hello?Anybody?"}], **NO_OPTIONS},
    ),
    "an image": RequestCase(
        conversation(message("user", "What is it?", Media("image/png", base64=PNG))),
        chat={
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
        responses={
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
        anthropic={
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
        ollama={
            "messages": [{"role": "user", "content": "What is it?", "images": [PNG]}],
            **NO_OPTIONS,
        },
    ),
    "an image by URL": RequestCase(
        conversation(message("user", Media("image/png", url=PNG_URL))),
        chat={
            "messages": [
                {
                    "role": "user",
                    "content": [{"type": "image_url", "image_url": {"url": PNG_URL}}],
                }
            ]
        },
        responses={
            "input": [{"role": "user", "content": [{"type": "input_image", "image_url": PNG_URL}]}]
        },
        anthropic={
            "messages": [
                {
                    "role": "user",
                    "content": [{"type": "image", "source": {"type": "url", "url": PNG_URL}}],
                }
            ],
            **MAX_TOKENS,
        },
    ),
    "a file": RequestCase(
        conversation(message("user", Media("application/pdf", base64=PDF))),
        chat={
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
        responses={
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
        anthropic={
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
    ),
    "a file by URL": RequestCase(
        conversation(message("user", Media("application/pdf", url="https://example.com/a.pdf"))),
        responses={
            "input": [
                {
                    "role": "user",
                    "content": [{"type": "input_file", "file_url": "https://example.com/a.pdf"}],
                }
            ]
        },
        anthropic={
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
    ),
    "audio": RequestCase(
        conversation(message("user", Media("audio/wav", base64="UklG"))),
        chat={
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "input_audio", "input_audio": {"data": "UklG", "format": "wav"}}
                    ],
                }
            ]
        },
        responses={
            "input": [
                {
                    "role": "user",
                    "content": [
                        {"type": "input_audio", "input_audio": {"data": "UklG", "format": "wav"}}
                    ],
                }
            ]
        },
    ),
    "a history of three turns": RequestCase(
        conversation(
            QUESTION,
            message("assistant", "Hi."),
            message("user", "Who?"),
            message("assistant", "Me."),
            message("user", "Bye."),
        ),
        **{
            name: {
                key: [
                    {"role": "user", "content": "Hello?"},
                    {**model_type, "role": "assistant", "content": "Hi."},
                    {"role": "user", "content": "Who?"},
                    {**model_type, "role": "assistant", "content": "Me."},
                    {"role": "user", "content": "Bye."},
                ],
                **further,
            }
            for name, key, model_type, further in (
                ("chat", "messages", {}, {}),
                ("responses", "input", {"type": "message"}, {}),
                ("anthropic", "messages", {}, MAX_TOKENS),
                ("ollama", "messages", {}, NO_OPTIONS),
            )
        },
    ),
    "parallel tool calls": RequestCase(
        conversation(QUESTION, CALLS, RESULT_MESSAGE, tools=(WEATHER,)),
        chat={
            "messages": [
                *HELLO["messages"],
                {"role": "assistant", "content": None, "tool_calls": CHAT_CALLS},
                *CHAT_RESULTS,
            ],
            "tools": CHAT_TOOLS,
        },
        responses={
            "input": [*HELLO_INPUT["input"], *RESPONSES_CALLS, *RESPONSES_RESULTS],
            "tools": RESPONSES_TOOLS,
        },
        anthropic={
            "messages": [
                *HELLO["messages"],
                {"role": "assistant", "content": ANTHROPIC_CALLS},
                {"role": "user", "content": ANTHROPIC_RESULTS},
            ],
            "tools": ANTHROPIC_TOOLS,
            **MAX_TOKENS,
        },
        ollama={
            "messages": [
                *HELLO["messages"],
                {"role": "assistant", "tool_calls": OLLAMA_CALLS},
                {"role": "tool", "tool_name": "weather", "content": "21 °C"},
                {"role": "tool", "tool_name": "weather", "content": "9 °C"},
            ],
            "tools": CHAT_TOOLS,
            **NO_OPTIONS,
        },
        differences=dropped_ids(
            "messages[1].tool_calls[0].id",
            "messages[1].tool_calls[1].id",
            "messages[2].tool_call_id",
            "messages[3].tool_call_id",
        ),
    ),
    "a text before a call, and a failed result": RequestCase(
        conversation(
            QUESTION,
            message("assistant", "One moment.", ToolCall("call_1", "weather", ROME)),
            message("tool", ToolResult("call_1", '{"error":"offline"}', failed=True)),
            message("user", "Again."),
        ),
        chat={
            "messages": [
                *HELLO["messages"],
                {"role": "assistant", "content": "One moment.", "tool_calls": CHAT_CALLS[:1]},
                {"role": "tool", "tool_call_id": "call_1", "content": '{"error":"offline"}'},
                {"role": "user", "content": "Again."},
            ]
        },
        responses={
            "input": [
                *HELLO_INPUT["input"],
                {"type": "message", "role": "assistant", "content": "One moment."},
                RESPONSES_CALLS[0],
                {
                    "type": "function_call_output",
                    "call_id": "call_1",
                    "output": '{"error":"offline"}',
                },
                {"role": "user", "content": "Again."},
            ]
        },
        anthropic={
            "messages": [
                *HELLO["messages"],
                {
                    "role": "assistant",
                    "content": [{"type": "text", "text": "One moment."}, ANTHROPIC_CALLS[0]],
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
        ollama={
            "messages": [
                *HELLO["messages"],
                {"role": "assistant", "content": "One moment.", "tool_calls": OLLAMA_CALLS[:1]},
                {"role": "tool", "tool_name": "weather", "content": '{"error":"offline"}'},
                {"role": "user", "content": "Again."},
            ],
            **NO_OPTIONS,
        },
        differences=dropped_ids("messages[1].tool_calls[0].id", "messages[2].tool_call_id"),
    ),
    "the model's message, sent back": RequestCase(
        carried_over("openai-chat", CHAT_RESPONSE),
        chat={
            "messages": [
                *HELLO["messages"],
                ChatCompletion.model_validate(CHAT_RESPONSE).choices[0].message,
                CHAT_RESULTS[0],
            ]
        },
        differences={
            "openai-chat": dict.fromkeys(
                ("messages[1].refusal", "messages[1].annotations"),
                "empty fields of the response say nothing",
            )
        },
    ),
    "the model's items, sent back": RequestCase(
        carried_over("openai-responses", RESPONSE),
        responses={
            "input": [
                *HELLO_INPUT["input"],
                *Response.model_validate(RESPONSE).output,
                RESPONSES_RESULTS[0],
            ]
        },
    ),
    "the model's blocks, sent back": RequestCase(
        carried_over("anthropic", ANTHROPIC_RESPONSE),
        anthropic={
            "messages": [
                *HELLO["messages"],
                {
                    "role": "assistant",
                    "content": anthropic.types.Message.model_validate(ANTHROPIC_RESPONSE).content,
                },
                {"role": "user", "content": ANTHROPIC_RESULTS[:1]},
            ],
            **MAX_TOKENS,
        },
    ),
    "Ollama's message, sent back": RequestCase(
        carried_over("ollama", OLLAMA_RESPONSE),
        ollama={
            "messages": [
                *HELLO["messages"],
                ollama.ChatResponse.model_validate(OLLAMA_RESPONSE).message,
                {"role": "tool", "tool_name": "weather", "content": "21 °C"},
            ],
            **NO_OPTIONS,
        },
    ),
    "a refusal": RequestCase(
        conversation(QUESTION, message("assistant", Refusal("No.")), message("user", "Please.")),
        chat={
            "messages": [
                *HELLO["messages"],
                {"role": "assistant", "content": None, "refusal": "No."},
                {"role": "user", "content": "Please."},
            ]
        },
        responses={
            "input": [
                *HELLO_INPUT["input"],
                {
                    "type": "message",
                    "role": "assistant",
                    "content": [{"type": "refusal", "refusal": "No."}],
                },
                {"role": "user", "content": "Please."},
            ]
        },
        anthropic={
            "messages": [
                *HELLO["messages"],
                {"role": "assistant", "content": "No."},
                {"role": "user", "content": "Please."},
            ],
            **MAX_TOKENS,
        },
        ollama={
            "messages": [
                *HELLO["messages"],
                {"role": "assistant", "content": "No."},
                {"role": "user", "content": "Please."},
            ],
            **NO_OPTIONS,
        },
    ),
    "a tool without description and parameters": RequestCase(
        conversation(QUESTION, tools=(ToolDefinition("now"),)),
        chat=HELLO | {"tools": [{"type": "function", "function": {"name": "now"}}]},
        responses=HELLO_INPUT
        | {"tools": [{"type": "function", "name": "now", "parameters": None, "strict": False}]},
        anthropic=HELLO
        | MAX_TOKENS
        | {"tools": [{"name": "now", "input_schema": {"type": "object"}}]},
        ollama=HELLO | NO_OPTIONS | {"tools": [{"type": "function", "function": {"name": "now"}}]},
    ),
    **{
        f"the tool choice {choice}": RequestCase(
            conversation(QUESTION, tools=(WEATHER,), tool_choice=choice),
            chat=HELLO | {"tools": CHAT_TOOLS, "tool_choice": choice},
            responses=HELLO_INPUT | {"tools": RESPONSES_TOOLS, "tool_choice": choice},
            anthropic=HELLO
            | MAX_TOKENS
            | {"tools": ANTHROPIC_TOOLS, "tool_choice": {"type": anthropic_choice}},
            ollama=ollama_arguments,
        )
        for choice, anthropic_choice, ollama_arguments in (
            ("auto", "auto", HELLO | NO_OPTIONS | {"tools": CHAT_TOOLS}),
            ("none", "none", HELLO | NO_OPTIONS),
            ("required", "any", None),
        )
    },
    "a forced tool": RequestCase(
        conversation(QUESTION, tools=(WEATHER,), tool_choice=ForcedTool("weather")),
        chat=HELLO
        | {
            "tools": CHAT_TOOLS,
            "tool_choice": {"type": "function", "function": {"name": "weather"}},
        },
        responses=HELLO_INPUT
        | {"tools": RESPONSES_TOOLS, "tool_choice": {"type": "function", "name": "weather"}},
        anthropic=HELLO
        | MAX_TOKENS
        | {"tools": ANTHROPIC_TOOLS, "tool_choice": {"type": "tool", "name": "weather"}},
    ),
    "the options of openai-chat": RequestCase(
        conversation(
            QUESTION,
            temperature=0,
            top_p=0.5,
            max_tokens=9,
            seed=7,
            stop_sequences=("END", "STOP"),
        ),
        chat=HELLO
        | {
            "temperature": 0,
            "top_p": 0.5,
            "max_completion_tokens": 9,
            "seed": 7,
            "stop": ["END", "STOP"],
        },
    ),
    "the options of openai-responses": RequestCase(
        conversation(QUESTION, temperature=0, top_p=0.5, max_tokens=9),
        responses=HELLO_INPUT | {"temperature": 0, "top_p": 0.5, "max_output_tokens": 9},
    ),
    "the options of anthropic": RequestCase(
        conversation(
            QUESTION, temperature=0, top_p=0.5, max_tokens=9, top_k=3, stop_sequences=("END",)
        ),
        # this SDK's own version of the API has no such parameters
        anthropic=HELLO
        | {
            "max_tokens": 9,
            "stop_sequences": ["END"],
            "extra_body": {"temperature": 0, "top_p": 0.5, "top_k": 3},
        },
    ),
    "the options of ollama": RequestCase(
        conversation(
            QUESTION,
            temperature=0,
            top_p=0.5,
            max_tokens=9,
            top_k=3,
            repeat_penalty=1.1,
            seed=7,
            stop_sequences=("END",),
        ),
        ollama=HELLO
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
    ),
    "a response schema": RequestCase(
        conversation(QUESTION, response_schema=ANSWER_SCHEMA),
        chat=HELLO
        | {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "response", "schema": ANSWER_SCHEMA},
            }
        },
        responses=HELLO_INPUT
        | {
            "text": {"format": {"type": "json_schema", "name": "response", "schema": ANSWER_SCHEMA}}
        },
        anthropic=HELLO
        | MAX_TOKENS
        | {"output_config": {"format": {"type": "json_schema", "schema": ANSWER_SCHEMA}}},
        ollama=HELLO | NO_OPTIONS | {"format": ANSWER_SCHEMA},
    ),
    "any JSON object": RequestCase(
        conversation(QUESTION, response_schema={}),
        chat=HELLO | {"response_format": {"type": "json_object"}},
        responses=HELLO_INPUT | {"text": {"format": {"type": "json_object"}}},
        ollama=HELLO | NO_OPTIONS | {"format": "json"},
    ),
    "a stored response": RequestCase(
        conversation(QUESTION, previous_response_id="resp_1"),
        responses=HELLO_INPUT | {"previous_response_id": "resp_1"},
    ),
    "a stored conversation": RequestCase(
        conversation(QUESTION, stored_conversation_id="conv_1"),
        responses=HELLO_INPUT | {"conversation": "conv_1"},
    ),
    "extra fields": RequestCase(
        conversation(QUESTION, extra_fields=(("user", "u"), ("metadata", {"a": "b"}))),
        chat=HELLO | {"user": "u", "metadata": {"a": "b"}},
        responses=HELLO_INPUT | {"user": "u", "metadata": {"a": "b"}},
        anthropic=HELLO | MAX_TOKENS | {"extra_body": {"user": "u", "metadata": {"a": "b"}}},
    ),
    "extra fields of ollama": RequestCase(
        conversation(QUESTION, extra_fields=(("keep_alive", "5m"), ("think", True))),
        ollama=HELLO | NO_OPTIONS | {"keep_alive": "5m", "think": True},
    ),
}
