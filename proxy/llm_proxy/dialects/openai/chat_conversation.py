"""What a chat of OpenAI's, and of those who followed it, asks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from llm_proxy.conversation import Conversation, Message
from llm_proxy.dialects import conversing, reading
from llm_proxy.dialects.openai import chat_message
from llm_proxy.dialects.reading import Fields
from llm_proxy.turns import Part, ToolResult

_SWITCHES: Final = ("reasoning_effort", "reasoning", "thinking", "enable_thinking")
"""What switches reasoning on: OpenAI's, and those of OpenRouter, DeepSeek and Qwen."""


def read(body: Fields) -> Conversation:
    """The conversation that a body holds."""
    messages = conversing.in_order(_messages(body))
    asked = reading.fields(body.get("response_format"))
    wrapped = reading.fields(asked.get("json_schema"))
    return Conversation(
        messages,
        system=conversing.system(messages),
        tools=(
            *conversing.functions(body.get("tools")),
            *conversing.functions(body.get("functions")),
        ),
        temperature=conversing.number(body.get("temperature")),
        top_p=conversing.number(body.get("top_p")),
        reasons=any(conversing.is_on(body.get(it)) for it in _SWITCHES),
        schema=conversing.structure(asked, wrapped.get("schema"), asked.get("schema")),
    )


def _messages(body: Fields) -> Iterator[Message]:
    for said in reading.objects(body.get("messages")):
        match conversing.role(said.get("role")):
            case None:
                pass
            case "tool":
                yield conversing.message("tool", [_result(said)])
            case role:
                yield conversing.message(role, _parts(said))


def _parts(said: Fields) -> Iterator[Part]:
    yield from (part for _, part in chat_message.fragments(said))
    yield from map(chat_message.tool_call, reading.objects(said.get("tool_calls")))


def _result(said: Fields) -> ToolResult:
    """What a tool gave; a legacy function is known by its name alone."""
    return ToolResult(
        conversing.said(said.get("tool_call_id")),
        conversing.in_words(said.get("content")),
        conversing.said(said.get("name")),
    )
