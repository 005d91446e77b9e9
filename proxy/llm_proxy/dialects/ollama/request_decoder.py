"""Decodes Ollama's chat and completion requests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from llm_proxy.conversation import Conversation, RequestMessage
from llm_proxy.dialects import lenient_json, request_decoding
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.turns import Json, Media, Part, Reasoning, Text, ToolCall, ToolResult


def decode_chat_request(body: Fields) -> Conversation:
    """The conversation that a chat holds."""
    messages = request_decoding.merge_adjacent_roles(_decode_messages(body))
    return _decode_conversation(body, messages, request_decoding.leading_system_prompt(messages))


def decode_generate_request(body: Fields) -> Conversation:
    """The conversation of a prompt, which the user says."""
    parts = [*request_decoding.decode_texts(body.get("prompt")), *_decode_images(body)]
    request_message = request_decoding.request_message("user", parts)
    return _decode_conversation(
        body, (request_message,), request_decoding.text_or_empty(body.get("system"))
    )


def _decode_conversation(
    body: Fields, messages: tuple[RequestMessage, ...], system: str
) -> Conversation:
    options, form = lenient_json.object_fields(body.get("options")), body.get("format")
    return Conversation(
        messages,
        system=system,
        tools=tuple(request_decoding.decode_function_tools(body.get("tools"))),
        temperature=request_decoding.decode_number(options.get("temperature")),
        top_p=request_decoding.decode_number(options.get("top_p")),
        reasoning_enabled=request_decoding.is_reasoning_enabled(body.get("think")),
        response_schema={} if form == "json" else request_decoding.first_schema(form),
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
    yield Reasoning(lenient_json.str_or_empty(fields.get("thinking")))
    yield Text(lenient_json.str_or_empty(fields.get("content")))
    yield from _decode_images(fields)
    for call in lenient_json.object_items(fields.get("tool_calls")):
        function = lenient_json.object_fields(call.get("function"))
        yield ToolCall(
            request_decoding.text_or_empty(call.get("id")),
            request_decoding.text_or_empty(function.get("name")),
            lenient_json.printable_text(function.get("arguments")),
        )


def _decode_images(fields: Fields) -> Iterable[Part]:
    drawn: list[Json] = lenient_json.array_items(fields.get("images"))
    return (Media("image/*", base64=lenient_json.str_or_empty(value)) for value in drawn)


def _decode_tool_result(fields: Fields) -> ToolResult:
    """What a tool gave; old servers know no ids, and older ones no names."""
    return ToolResult(
        request_decoding.text_or_empty(fields.get("tool_call_id")),
        request_decoding.tool_output_text(fields.get("content")),
        request_decoding.text_or_empty(fields.get("tool_name"))
        or request_decoding.text_or_empty(fields.get("name")),
    )
