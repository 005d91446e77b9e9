"""Gemini's contents, by Google's SDK in the environment of its judge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from llm_proxy.conversation import Conversation, RequestMessage
from llm_proxy.turns import Media, ToolCall, ToolResult
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
    message,
    parts_of_response,
)
from sdk_requests.judge_process import in_judge

DIALECT: Final = "gemini"
PROVIDER: Final = ""

sender: Final = in_judge("google-genai")


def user(*parts: Arguments | str) -> dict[str, Any]:
    """A content of the user; strings are texts."""
    wire_parts = [{"text": part} if isinstance(part, str) else part for part in parts]
    return {"role": "user", "parts": wire_parts}


def model(*parts: Arguments | str) -> dict[str, Any]:
    """A content of the model."""
    return {**user(*parts), "role": "model"}


def inline(media_type: str, data: str) -> dict[str, Any]:
    return {"inline_data": {"mime_type": media_type, "data": data}}


def by_url(media_type: str, url: str) -> dict[str, Any]:
    return {"file_data": {"mime_type": media_type, "file_uri": url}}


def result(response: Arguments, **fields: str) -> dict[str, Any]:
    return {"function_response": {"name": "weather", "response": response, **fields}}


def choice(mode: str, *names: str) -> dict[str, Any]:
    """The configuration of a tool choice."""
    allowed = {"allowed_function_names": list(names)} if names else {}
    return {"tool_config": {"function_calling_config": {"mode": mode, **allowed}}}


HELLO: Final = {"contents": [user("Hello?")]}
TOOLS: Final = {
    "tools": [
        {
            "function_declarations": [
                {
                    "name": "weather",
                    "description": "Current weather.",
                    "parameters_json_schema": CITY_SCHEMA,
                }
            ]
        }
    ]
}
WIRE_CALLS: Final = [
    {"function_call": {"id": call_id, "name": "weather", "args": {"city": city}}}
    for call_id, city in (("call_1", "Rome"), ("call_2", "Oslo"))
]


def response(*parts: Arguments) -> dict[str, Any]:
    """A response that does not stream."""
    return {
        "candidates": [{"content": {"role": "model", "parts": list(parts)}, "finishReason": "STOP"}]
    }


CALL: Final = {"id": "f1", "name": "weather", "args": {"city": "Rome"}}
RESPONSE: Final = response(
    {"text": "Look first.", "thought": True},
    {"text": "One moment.", "thoughtSignature": "c2VhbA=="},
    {"functionCall": CALL, "thoughtSignature": "c2VhbC8/Pw=="},
    {"functionCall": {**CALL, "id": "f2"}},
)
SERVER_TOOLS_RESPONSE: Final = response(
    {"text": "Count.", "thought": True, "thoughtSignature": "c2VhbA=="},
    {"executableCode": {"id": "c1", "language": "PYTHON", "code": "print(1)"}},
    {"codeExecutionResult": {"id": "c1", "outcome": "OUTCOME_OK", "output": "1\n"}},
    {
        "toolCall": {
            "id": "t1",
            "toolType": "GOOGLE_SEARCH_WEB",
            "args": {"queries": ["weather"]},
        },
        "thoughtSignature": "c2VhbA==",
    },
    {
        "toolResponse": {
            "id": "t1",
            "toolType": "GOOGLE_SEARCH_WEB",
            "response": {"search_suggestions": "x"},
        }
    },
    {"inlineData": {"mimeType": "image/png", "data": PNG}, "thoughtSignature": "c2VhbA=="},
    {"text": "", "thoughtSignature": "c2VhbA=="},
)

OWN_CONVERSATIONS: Final[Mapping[str, Conversation]] = {
    "Gemini's content, sent back": carried_over("gemini", RESPONSE),
    "parts of Google's tools, sent back": conversation(
        QUESTION,
        RequestMessage("assistant", parts_of_response("gemini", SERVER_TOOLS_RESPONSE)),
        message("user", "Who?"),
    ),
    "a call without an id, and an object as its result": conversation(
        QUESTION,
        message("assistant", ToolCall("", "weather", "{}")),
        message("tool", ToolResult("", '{"celsius":21}', "weather")),
    ),
    "a failed result that is text": conversation(
        QUESTION,
        message("assistant", ToolCall("", "weather", "{}")),
        message("tool", ToolResult("", "offline", "weather", failed=True)),
    ),
    "a text file, and a video of Google's": conversation(
        message(
            "user",
            Media("text/plain", base64="SGk="),
            Media("video/mp4", url="https://example.com/files/1"),
        )
    ),
    "the options of gemini": conversation(
        QUESTION,
        temperature=0,
        top_p=0.5,
        max_tokens=9,
        top_k=3,
        seed=7,
        stop_sequences=("END",),
    ),
    "extra fields of gemini": conversation(
        QUESTION,
        temperature=0.5,
        extra_fields=(("generationConfig", {"candidateCount": 2}),),
    ),
}
"""Rows that only this API has."""

CALLS: Final[Mapping[str, Arguments]] = {
    "a text": HELLO,
    "a system prompt": HELLO | {"config": {"system_instruction": "Be brief."}},
    "system messages": HELLO | {"config": {"system_instruction": "Be brief.\nBe kind."}},
    "several texts": {"contents": [user("Hello?", "Anybody?")]},
    "an image": {"contents": [user("What is it?", inline("image/png", PNG))]},
    "an image by URL": {"contents": [user(by_url("image/png", PNG_URL))]},
    "a file": {"contents": [user(inline("application/pdf", PDF))]},
    "a file by URL": {"contents": [user(by_url("application/pdf", "https://example.com/a.pdf"))]},
    "audio": {"contents": [user(inline("audio/wav", "UklG"))]},
    "a text file, and a video of Google's": {
        "contents": [
            user(inline("text/plain", "SGk="), by_url("video/mp4", "https://example.com/files/1"))
        ]
    },
    "a history of three turns": {
        "contents": [user("Hello?"), model("Hi."), user("Who?"), model("Me."), user("Bye.")]
    },
    "parallel tool calls": {
        "contents": [
            user("Hello?"),
            model(*WIRE_CALLS),
            user(result({"result": "21 °C"}, id="call_1"), result({"result": "9 °C"}, id="call_2")),
        ],
        "config": TOOLS,
    },
    "a text before a call, and a failed result": {
        "contents": [
            user("Hello?"),
            model("One moment.", WIRE_CALLS[0]),
            user(result({"error": "offline"}, id="call_1")),
            user("Again."),
        ]
    },
    "a call without an id, and an object as its result": {
        "contents": [
            user("Hello?"),
            model({"function_call": {"name": "weather", "args": {}}}),
            user(result({"celsius": 21})),
        ]
    },
    "a failed result that is text": {
        "contents": [
            user("Hello?"),
            model({"function_call": {"name": "weather", "args": {}}}),
            user(result({"error": "offline"})),
        ]
    },
    "Gemini's content, sent back": {
        "contents": [
            user("Hello?"),
            {"response": RESPONSE},
            user(result({"result": "21 °C"}, id="f2")),
        ]
    },
    "parts of Google's tools, sent back": {
        "contents": [user("Hello?"), {"response": SERVER_TOOLS_RESPONSE}, user("Who?")]
    },
    "reasoning with a signature": {
        "contents": [
            user("Hello?"),
            model({"text": "Look first.", "thought": True, "thought_signature": "c2VhbA=="}, "Hi."),
            user("Who?"),
        ]
    },
    "a refusal": {"contents": [user("Hello?"), model("No."), user("Please.")]},
    "a tool without description and parameters": HELLO
    | {"config": {"tools": [{"function_declarations": [{"name": "now"}]}]}},
    "the tool choice auto": HELLO | {"config": TOOLS | choice("AUTO")},
    "the tool choice none": HELLO | {"config": TOOLS | choice("NONE")},
    "the tool choice required": HELLO | {"config": TOOLS | choice("ANY")},
    "a forced tool": HELLO | {"config": TOOLS | choice("ANY", "weather")},
    "the options of gemini": HELLO
    | {
        "config": {
            "temperature": 0,
            "top_p": 0.5,
            "max_output_tokens": 9,
            "top_k": 3,
            "seed": 7,
            "stop_sequences": ["END"],
        }
    },
    "a response schema": HELLO
    | {
        "config": {
            "response_mime_type": "application/json",
            "response_json_schema": ANSWER_SCHEMA,
        }
    },
    "any JSON object": HELLO | {"config": {"response_mime_type": "application/json"}},
    "extra fields": HELLO
    | {"config": {"http_options": {"extra_body": {"user": "u", "metadata": {"a": "b"}}}}},
    "extra fields of gemini": HELLO | {"config": {"temperature": 0.5, "candidate_count": 2}},
}
"""The keyword arguments of the SDK's call, without the model, by row."""

DIFFERENCES: Final[Differences] = {
    "Gemini's content, sent back": {
        "contents[1].parts[2].thoughtSignature": "the SDK changes `/` and `+` of a signature"
    }
}
