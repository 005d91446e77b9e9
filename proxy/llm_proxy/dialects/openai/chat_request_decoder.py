"""What a chat of OpenAI's, and of those who followed it, asks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from llm_proxy.conversation import Conversation, Message
from llm_proxy.dialects import lenient_json, request_decoding
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.openai import chat_message_decoder
from llm_proxy.turns import Part, ToolResult

_SWITCHES: Final = ("reasoning_effort", "reasoning", "thinking", "enable_thinking")
"""What switches reasoning on: OpenAI's, and those of OpenRouter, DeepSeek and Qwen."""


def read(body: Fields) -> Conversation:
    """The conversation that a body holds."""
    messages = request_decoding.in_order(_messages(body))
    asked = lenient_json.fields(body.get("response_format"))
    wrapped = lenient_json.fields(asked.get("json_schema"))
    return Conversation(
        messages,
        system=request_decoding.system(messages),
        tools=(
            *request_decoding.functions(body.get("tools")),
            *request_decoding.functions(body.get("functions")),
        ),
        temperature=request_decoding.number(body.get("temperature")),
        top_p=request_decoding.number(body.get("top_p")),
        reasons=any(request_decoding.is_on(body.get(it)) for it in _SWITCHES),
        schema=request_decoding.structure(asked, wrapped.get("schema"), asked.get("schema")),
    )


def _messages(body: Fields) -> Iterator[Message]:
    for said in lenient_json.objects(body.get("messages")):
        match request_decoding.role(said.get("role")):
            case None:
                pass
            case "tool":
                yield request_decoding.message("tool", [_result(said)])
            case role:
                yield request_decoding.message(role, _parts(said))


def _parts(said: Fields) -> Iterator[Part]:
    yield from (part for _, part in chat_message_decoder.fragments(said))
    yield from map(chat_message_decoder.tool_call, lenient_json.objects(said.get("tool_calls")))


def _result(said: Fields) -> ToolResult:
    """What a tool gave; a legacy function is known by its name alone."""
    return ToolResult(
        request_decoding.said(said.get("tool_call_id")),
        request_decoding.in_words(said.get("content")),
        request_decoding.said(said.get("name")),
    )
