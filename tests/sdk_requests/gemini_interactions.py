"""Google's Interactions API, by its SDK in the environment of its judge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from llm_proxy.conversation import Conversation
from llm_proxy.turns import Media, ToolCall, ToolResult
from sdk_requests.conversations import (
    ANSWER_SCHEMA,
    FUNCTION,
    PDF,
    PNG,
    PNG_URL,
    QUESTION,
    ROME,
    Arguments,
    Differences,
    carried_over,
    conversation,
    message,
)
from sdk_requests.judge_process import in_judge

DIALECT: Final = "gemini-interactions"
PROVIDER: Final = ""

sender: Final = in_judge("google-genai")


def user(*contents: Arguments | str) -> dict[str, Any]:
    """A step of the user; strings are texts."""
    return {"type": "user_input", "content": [*map(content, contents)]}


def output(text: str) -> dict[str, Any]:
    """A step of the model."""
    return {"type": "model_output", "content": [content(text)]}


def content(value: Arguments | str) -> Arguments:
    return {"type": "text", "text": value} if isinstance(value, str) else value


def media(kind: str, media_type: str, **source: str) -> dict[str, Any]:
    return {"type": kind, "mime_type": media_type, **source}


def result(call_id: str, text: str, **fields: Any) -> dict[str, Any]:
    return {
        "type": "function_result",
        "call_id": call_id,
        "name": "weather",
        "result": text,
        **fields,
    }


HELLO: Final = {"input": [user("Hello?")]}
TOOLS: Final = {"tools": [{"type": "function", **FUNCTION}]}
WIRE_CALLS: Final = [
    {"type": "function_call", "id": call_id, "name": "weather", "arguments": {"city": city}}
    for call_id, city in (("call_1", "Rome"), ("call_2", "Oslo"))
]
RESPONSE: Final = {
    "id": "v1_1",
    "object": "interaction",
    "status": "requires_action",
    "model": "m",
    "created": "2026-11-21T10:00:00Z",
    "updated": "2026-11-21T10:00:00Z",
    "steps": [
        {
            "type": "thought",
            "signature": "c2VhbC8/Pw==",
            "summary": [{"type": "text", "text": "Look first."}],
        },
        {
            "type": "google_search_call",
            "id": "g1",
            "arguments": {"queries": ["weather"]},
            "signature": "c2VhbA==",
        },
        {
            "type": "google_search_result",
            "call_id": "g1",
            "result": [{"search_suggestions": "<p>"}],
            "signature": "c2VhbA==",
        },
        {
            "type": "model_output",
            "content": [
                {
                    "type": "text",
                    "text": "One moment.",
                    "annotations": [
                        {
                            "type": "url_citation",
                            "url": "https://example.com/",
                            "title": "Weather",
                            "start_index": 0,
                            "end_index": 3,
                        }
                    ],
                }
            ],
        },
        {"type": "model_output", "content": [media("image", "image/png", data=PNG)]},
        {**WIRE_CALLS[0], "signature": "c2VhbA=="},
    ],
}

OWN_CONVERSATIONS: Final[Mapping[str, Conversation]] = {
    "the model's steps, sent back": carried_over("gemini-interactions", RESPONSE),
    "results and a text in one message": conversation(
        QUESTION,
        message("assistant", ToolCall("call_1", "weather", ROME)),
        message("user", ToolResult("call_1", '{"celsius":21}', "weather"), "And then?"),
    ),
    "a video of Google's": conversation(
        message("user", Media("video/mp4", url="https://example.com/files/1"))
    ),
    "the options of gemini-interactions": conversation(
        QUESTION, temperature=0, top_p=0.5, max_tokens=9, seed=7, stop_sequences=("END",)
    ),
    "an earlier interaction": conversation(QUESTION, previous_response_id="v1_1"),
    "extra fields of gemini-interactions": conversation(
        QUESTION,
        seed=7,
        extra_fields=(("store", False), ("generation_config", {"thinking_level": "low"})),
    ),
}
"""Rows that only this API has."""

CALLS: Final[Mapping[str, Arguments]] = {
    "a text": HELLO,
    "a system prompt": HELLO | {"system_instruction": "Be brief."},
    "system messages": HELLO | {"system_instruction": "Be brief.\nBe kind."},
    "several texts": {"input": [user("Hello?", "Anybody?")]},
    "an image": {"input": [user("What is it?", media("image", "image/png", data=PNG))]},
    "an image by URL": {"input": [user(media("image", "image/png", uri=PNG_URL))]},
    "a file": {"input": [user(media("document", "application/pdf", data=PDF))]},
    "a file by URL": {
        "input": [user(media("document", "application/pdf", uri="https://example.com/a.pdf"))]
    },
    "audio": {"input": [user(media("audio", "audio/wav", data="UklG"))]},
    "a video of Google's": {
        "input": [user(media("video", "video/mp4", uri="https://example.com/files/1"))]
    },
    "a history of three turns": {
        "input": [user("Hello?"), output("Hi."), user("Who?"), output("Me."), user("Bye.")]
    },
    "parallel tool calls": {
        "input": [
            user("Hello?"),
            *WIRE_CALLS,
            result("call_1", "21 °C"),
            result("call_2", "9 °C"),
        ],
        **TOOLS,
    },
    "a text before a call, and a failed result": {
        "input": [
            user("Hello?"),
            output("One moment."),
            WIRE_CALLS[0],
            result("call_1", '{"error":"offline"}', is_error=True),
            user("Again."),
        ]
    },
    "results and a text in one message": {
        "input": [
            user("Hello?"),
            WIRE_CALLS[0],
            result("call_1", '{"celsius":21}'),
            user("And then?"),
        ]
    },
    "the model's steps, sent back": {
        "input": [user("Hello?"), {"response": RESPONSE}, result("call_1", "21 °C")]
    },
    "reasoning with a signature": {
        "input": [
            user("Hello?"),
            {"type": "thought", "signature": "c2VhbA==", "summary": [content("Look first.")]},
            output("Hi."),
            user("Who?"),
        ]
    },
    "a refusal": {"input": [user("Hello?"), output("No."), user("Please.")]},
    "a tool without description and parameters": HELLO
    | {"tools": [{"type": "function", "name": "now"}]},
    **{
        f"the tool choice {choice}": HELLO
        | TOOLS
        | {"generation_config": {"tool_choice": wire_choice}}
        for choice, wire_choice in (("auto", "auto"), ("none", "none"), ("required", "any"))
    },
    "a forced tool": HELLO
    | TOOLS
    | {
        "generation_config": {
            "tool_choice": {"allowed_tools": {"mode": "any", "tools": ["weather"]}}
        }
    },
    "the options of gemini-interactions": HELLO
    | {
        "generation_config": {
            "temperature": 0,
            "top_p": 0.5,
            "max_output_tokens": 9,
            "seed": 7,
            "stop_sequences": ["END"],
        }
    },
    "a response schema": HELLO
    | {
        "response_format": {
            "type": "text",
            "mime_type": "application/json",
            "schema": ANSWER_SCHEMA,
        }
    },
    "any JSON object": HELLO
    | {"response_format": {"type": "text", "mime_type": "application/json"}},
    "an earlier interaction": HELLO | {"previous_interaction_id": "v1_1"},
    "extra fields": HELLO | {"extra_body": {"user": "u", "metadata": {"a": "b"}}},
    "extra fields of gemini-interactions": HELLO
    | {"store": False, "generation_config": {"seed": 7, "thinking_level": "low"}},
}
"""The keyword arguments of the SDK's call, without the model, by row."""

DIFFERENCES: Final[Differences] = {}
