"""The conversations that every SDK sends: the rows of one table.

Each module of this package has one API: the call of its official SDK for each row that the API can
express, and the further rows that only that API has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from llm_proxy.conversation import Conversation, ForcedTool, RequestMessage, Role, ToolDefinition
from llm_proxy.dialects import DialectResponse, dialect_named
from llm_proxy.exchange import ResponseHead
from llm_proxy.turns import Media, Part, Reasoning, Refusal, Text, ToolCall, ToolResult

Arguments = Mapping[str, Any]
"""The keyword arguments of an SDK's call, without the model."""
Differences = Mapping[str, Mapping[str, str]]
"""By row, the paths of values that differ from the SDK's on purpose, with the reason."""


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


def carried_over(dialect: str, document: Arguments) -> Conversation:
    """A question, the model's response, and the result of its call."""
    parts = parts_of_response(dialect, document)
    [*_, call] = (part for part in parts if isinstance(part, ToolCall))
    result = ToolResult(call.id, "21 °C", call.name)
    return conversation(QUESTION, RequestMessage("assistant", parts), message("tool", result))


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
QUESTION: Final = message("user", "Hello?")

ROME: Final = '{"city":"Rome"}'
OSLO: Final = '{"city":"Oslo"}'
CALLS: Final = message(
    "assistant", ToolCall("call_1", "weather", ROME), ToolCall("call_2", "weather", OSLO)
)
RESULT_MESSAGE: Final = message("tool", ToolResult("call_1", "21 °C"), ToolResult("call_2", "9 °C"))

CONVERSATIONS: Final[Mapping[str, Conversation]] = {
    "a text": conversation(QUESTION),
    "a system prompt": conversation(QUESTION, system="Be brief."),
    "system messages": conversation(
        message("system", "Be brief."), message("system", "Be kind."), QUESTION
    ),
    "several texts": conversation(message("user", "Hello?", "Anybody?")),
    "an image": conversation(message("user", "What is it?", Media("image/png", base64=PNG))),
    "an image by URL": conversation(message("user", Media("image/png", url=PNG_URL))),
    "a file": conversation(message("user", Media("application/pdf", base64=PDF))),
    "a file by URL": conversation(
        message("user", Media("application/pdf", url="https://example.com/a.pdf"))
    ),
    "audio": conversation(message("user", Media("audio/wav", base64="UklG"))),
    "a history of three turns": conversation(
        QUESTION,
        message("assistant", "Hi."),
        message("user", "Who?"),
        message("assistant", "Me."),
        message("user", "Bye."),
    ),
    "parallel tool calls": conversation(QUESTION, CALLS, RESULT_MESSAGE, tools=(WEATHER,)),
    "a text before a call, and a failed result": conversation(
        QUESTION,
        message("assistant", "One moment.", ToolCall("call_1", "weather", ROME)),
        message("tool", ToolResult("call_1", '{"error":"offline"}', failed=True)),
        message("user", "Again."),
    ),
    "reasoning with a signature": conversation(
        QUESTION,
        message("assistant", Reasoning("Look first.", "c2VhbA=="), "Hi."),
        message("user", "Who?"),
    ),
    "a refusal": conversation(
        QUESTION, message("assistant", Refusal("No.")), message("user", "Please.")
    ),
    "a tool without description and parameters": conversation(
        QUESTION, tools=(ToolDefinition("now"),)
    ),
    **{
        f"the tool choice {choice}": conversation(QUESTION, tools=(WEATHER,), tool_choice=choice)
        for choice in ("auto", "none", "required")
    },
    "a forced tool": conversation(QUESTION, tools=(WEATHER,), tool_choice=ForcedTool("weather")),
    "a response schema": conversation(QUESTION, response_schema=ANSWER_SCHEMA),
    "any JSON object": conversation(QUESTION, response_schema={}),
    "extra fields": conversation(QUESTION, extra_fields=(("user", "u"), ("metadata", {"a": "b"}))),
}
