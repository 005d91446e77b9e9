"""Decodes Ollama's chat and completion requests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from llm_proxy.conversation import Conversation, RequestMessage
from llm_proxy.dialects import request_decoding
from llm_proxy.dialects.lenient_json import (
    Fields,
    get_items,
    get_object,
    get_objects,
    get_string,
    get_text,
    str_or_empty,
)
from llm_proxy.turns import Json, Media, Part, Reasoning, Text, ToolCall, ToolResult


def decode_chat_request(body: Fields) -> Conversation:
    """The conversation of an `/api/chat` body."""
    messages = request_decoding.merge_adjacent_messages(_decode_messages(body))
    return _decode_conversation(body, messages, request_decoding.first_system_text(messages))


def decode_generate_request(body: Fields) -> Conversation:
    """The conversation of an `/api/generate` body: one message of the user."""
    parts = [*request_decoding.decode_texts(body.get("prompt")), *_decode_images(body)]
    request_message = request_decoding.request_message("user", parts)
    return _decode_conversation(
        body, (request_message,), request_decoding.text_or_empty(body.get("system"))
    )


def _decode_conversation(
    body: Fields, messages: tuple[RequestMessage, ...], system: str
) -> Conversation:
    options, response_format = get_object(body, "options"), body.get("format")
    return Conversation(
        messages,
        system=system,
        tools=tuple(request_decoding.decode_function_tools(body.get("tools"))),
        temperature=request_decoding.decode_number(options.get("temperature")),
        top_p=request_decoding.decode_number(options.get("top_p")),
        reasoning_enabled=request_decoding.is_reasoning_enabled(body.get("think")),
        response_schema={}
        if response_format == "json"
        else request_decoding.first_schema(response_format),
    )


def _decode_messages(body: Fields) -> Iterator[RequestMessage]:
    for message in get_objects(body, "messages"):
        match request_decoding.decode_role(message.get("role")):
            case None:
                pass
            case "tool":
                yield request_decoding.request_message("tool", [_decode_tool_result(message)])
            case role:
                yield request_decoding.request_message(role, _decode_parts(message))


def _decode_parts(fields: Fields) -> Iterator[Part]:
    yield Reasoning(get_string(fields, "thinking"))
    yield Text(get_string(fields, "content"))
    yield from _decode_images(fields)
    for call in get_objects(fields, "tool_calls"):
        function = get_object(call, "function")
        yield ToolCall(
            request_decoding.text_or_empty(call.get("id")),
            request_decoding.text_or_empty(function.get("name")),
            get_text(function, "arguments"),
        )


def _decode_images(fields: Fields) -> Iterable[Part]:
    images: list[Json] = get_items(fields, "images")
    return (Media("image/*", base64=str_or_empty(value)) for value in images)


def _decode_tool_result(fields: Fields) -> ToolResult:
    """A tool's result; old servers have no ids for calls, and older ones no tool names."""
    return ToolResult(
        request_decoding.text_or_empty(fields.get("tool_call_id")),
        request_decoding.tool_output_text(fields.get("content")),
        request_decoding.text_or_empty(fields.get("tool_name"))
        or request_decoding.text_or_empty(fields.get("name")),
    )
