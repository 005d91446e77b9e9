"""Decodes chat requests of OpenAI and compatible clients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from llm_proxy.conversation import Conversation, RequestMessage
from llm_proxy.dialects import lenient_json, request_decoding
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.openai import chat_message_decoder
from llm_proxy.turns import Part, ToolResult

_SWITCHES: Final = ("reasoning_effort", "reasoning", "thinking", "enable_thinking")
"""What switches reasoning on: OpenAI's, and those of OpenRouter, DeepSeek and Qwen."""


def decode_request(body: Fields) -> Conversation:
    """The conversation that a body holds."""
    messages = request_decoding.merge_adjacent_roles(_decode_messages(body))
    fields = lenient_json.object_fields(body.get("response_format"))
    wrapped = lenient_json.object_fields(fields.get("json_schema"))
    return Conversation(
        messages,
        system=request_decoding.leading_system_prompt(messages),
        tools=(
            *request_decoding.decode_function_tools(body.get("tools")),
            *request_decoding.decode_function_tools(body.get("functions")),
        ),
        temperature=request_decoding.decode_number(body.get("temperature")),
        top_p=request_decoding.decode_number(body.get("top_p")),
        reasoning_enabled=any(
            request_decoding.is_reasoning_enabled(body.get(switch)) for switch in _SWITCHES
        ),
        response_schema=request_decoding.response_schema(
            fields, wrapped.get("schema"), fields.get("schema")
        ),
    )


def _decode_messages(body: Fields) -> Iterator[RequestMessage]:
    for object_item in lenient_json.object_items(body.get("messages")):
        match request_decoding.decode_role(object_item.get("role")):
            case None:
                pass
            case "tool":
                yield request_decoding.request_message("tool", [_decode_tool_result(object_item)])
            case role:
                yield request_decoding.request_message(role, _decode_parts(object_item))


def _decode_parts(fields: Fields) -> Iterator[Part]:
    yield from (part for _, part in chat_message_decoder.decode_fragments(fields))
    yield from map(
        chat_message_decoder.decode_tool_call, lenient_json.object_items(fields.get("tool_calls"))
    )


def _decode_tool_result(fields: Fields) -> ToolResult:
    """What a tool gave; a legacy function is known by its name alone."""
    return ToolResult(
        request_decoding.text_or_empty(fields.get("tool_call_id")),
        request_decoding.tool_output_text(fields.get("content")),
        request_decoding.text_or_empty(fields.get("name")),
    )
