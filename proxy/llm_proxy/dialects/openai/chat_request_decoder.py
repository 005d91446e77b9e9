"""Decodes chat requests of OpenAI and compatible clients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from llm_proxy.conversation import Conversation, RequestMessage
from llm_proxy.dialects import lenient_json, request_decoding
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.openai import chat_message_decoder
from llm_proxy.turns import Part, ToolResult

_REASONING_FIELDS: Final = ("reasoning_effort", "reasoning", "thinking", "enable_thinking")
"""Fields that enable reasoning: of OpenAI, OpenRouter, DeepSeek and Qwen."""


def decode_request(body: Fields) -> Conversation:
    """The conversation in the body of a chat request."""
    messages = request_decoding.merge_adjacent_messages(_decode_messages(body))
    response_format = lenient_json.object_fields(body.get("response_format"))
    json_schema = lenient_json.object_fields(response_format.get("json_schema"))
    return Conversation(
        messages,
        system=request_decoding.first_system_text(messages),
        tools=(
            *request_decoding.decode_function_tools(body.get("tools")),
            *request_decoding.decode_function_tools(body.get("functions")),
        ),
        temperature=request_decoding.decode_number(body.get("temperature")),
        top_p=request_decoding.decode_number(body.get("top_p")),
        reasoning_enabled=any(
            request_decoding.is_reasoning_enabled(body.get(name)) for name in _REASONING_FIELDS
        ),
        response_schema=request_decoding.response_schema(
            response_format, json_schema.get("schema"), response_format.get("schema")
        ),
    )


def _decode_messages(body: Fields) -> Iterator[RequestMessage]:
    for message in lenient_json.array_objects(body.get("messages")):
        match request_decoding.decode_role(message.get("role")):
            case None:
                pass
            case "tool":
                yield request_decoding.request_message("tool", [_decode_tool_result(message)])
            case role:
                yield request_decoding.request_message(role, _decode_parts(message))


def _decode_parts(message: Fields) -> Iterator[Part]:
    yield from (part for _, part in chat_message_decoder.decode_fragments(message))
    yield from map(
        chat_message_decoder.decode_tool_call, lenient_json.array_objects(message.get("tool_calls"))
    )


def _decode_tool_result(message: Fields) -> ToolResult:
    """The result in a message of role `tool`; a legacy function has a name but no call ID."""
    return ToolResult(
        request_decoding.text_or_empty(message.get("tool_call_id")),
        request_decoding.tool_output_text(message.get("content")),
        request_decoding.text_or_empty(message.get("name")),
    )
