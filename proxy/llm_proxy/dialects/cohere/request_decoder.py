"""Decodes chat requests of Cohere's API, versions 2 and 1."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from llm_proxy.conversation import Conversation, RequestMessage, ToolDefinition
from llm_proxy.dialects import json_api, request_decoding
from llm_proxy.dialects.cohere import chat_v2
from llm_proxy.dialects.lenient_json import (
    Fields,
    array_objects,
    get_object,
    get_objects,
    get_string,
    get_text,
    object_fields,
)
from llm_proxy.turns import Json, Part, Text, ToolCall, ToolResult

_JSON_SCHEMA_TYPES: Final = {
    "str": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "list": "array",
    "dict": "object",
}
"""Python's names of parameter types, as version 1 has them -> JSON Schema's."""


def decode_v2_request(body: Fields) -> Conversation:
    """The conversation of a `/v2/chat` body."""
    messages = request_decoding.merge_adjacent_messages(_decode_v2_messages(body))
    fields = get_object(body, "response_format")
    return Conversation(
        messages,
        system=request_decoding.first_system_text(messages),
        tools=tuple(request_decoding.decode_function_tools(body.get("tools"))),
        temperature=request_decoding.decode_number(body.get("temperature")),
        top_p=request_decoding.decode_number(body.get("p")),
        reasoning_enabled=request_decoding.is_reasoning_enabled(
            get_object(body, "thinking").get("type")
        ),
        response_schema=request_decoding.response_schema(
            fields, fields.get("json_schema"), fields.get("schema")
        ),
    )


def _decode_v2_messages(body: Fields) -> Iterator[RequestMessage]:
    for message in get_objects(body, "messages"):
        match request_decoding.decode_role(message.get("role")):
            case None:
                pass
            case "tool":
                text = _tool_output_text(message.get("content"))
                call_id = request_decoding.text_or_empty(message.get("tool_call_id"))
                yield request_decoding.request_message("tool", [ToolResult(call_id, text)])
            case role:
                yield request_decoding.request_message(role, _decode_v2_parts(message))


def _decode_v2_parts(fields: Fields) -> Iterator[Part]:
    items = [part for _, part in chat_v2.decode_fragments(fields, 0)]
    yield from (item for item in items if not isinstance(item, ToolCall))
    for block in get_objects(fields, "content"):
        if image := get_object(block, "image_url"):
            yield json_api.decode_media_url(get_text(image, "url"), "image/*")
    yield from (item for item in items if isinstance(item, ToolCall))


def _tool_output_text(content: Json) -> str:
    """A tool's output: text, or documents whose `data` is text or JSON, one a line."""
    documents = [get_object(object_item, "document") for object_item in array_objects(content)]
    items = [get_text(document, "data") for document in documents if document.get("data")]
    return "\n".join(items) or request_decoding.tool_output_text(content)


def decode_v1_request(body: Fields) -> Conversation:
    """The conversation of a `/v1/chat` body: its history, then the current message."""
    history = get_objects(body, "chat_history")
    current_message: Fields = {**body, "role": "user"}
    messages = request_decoding.merge_adjacent_messages(
        message for fields in (*history, current_message) for message in _decode_v1_messages(fields)
    )
    fields = get_object(body, "response_format")
    return Conversation(
        messages,
        system=request_decoding.text_or_empty(body.get("preamble"))
        or request_decoding.first_system_text(messages),
        tools=tuple(
            tool_definition
            for object_item in get_objects(body, "tools")
            for tool_definition in _decode_v1_tool(object_item)
        ),
        temperature=request_decoding.decode_number(body.get("temperature")),
        top_p=request_decoding.decode_number(body.get("p")),
        response_schema=request_decoding.response_schema(
            fields, fields.get("schema"), fields.get("json_schema")
        ),
        stored_conversation_id=request_decoding.text_or_empty(body.get("conversation_id")),
    )


def _decode_v1_messages(fields: Fields) -> Iterator[RequestMessage]:
    """The message of a history entry, after the tool results that the entry holds."""
    if items := get_objects(fields, "tool_results"):
        yield request_decoding.request_message("tool", map(_decode_tool_result, items))
    role = request_decoding.decode_role(fields.get("role"))
    text = get_string(fields, "message")
    calls = get_objects(fields, "tool_calls")
    if role == "assistant" or (role is not None and text):
        yield request_decoding.request_message(role, [Text(text), *map(_decode_tool_call, calls)])


def _decode_tool_call(fields: Fields) -> ToolCall:
    return ToolCall(
        "",
        request_decoding.text_or_empty(fields.get("name")),
        get_text(fields, "parameters"),
    )


def _decode_tool_result(fields: Fields) -> ToolResult:
    call = get_object(fields, "call")
    name = request_decoding.text_or_empty(call.get("name"))
    return ToolResult("", request_decoding.tool_output_text(fields.get("outputs")), name)


def _decode_v1_tool(fields: Fields) -> Iterator[ToolDefinition]:
    parameter_definitions = get_object(fields, "parameter_definitions")
    properties: dict[str, Json] = {
        name: {
            "type": _JSON_SCHEMA_TYPES.get(get_string(document, "type"), "string"),
            "description": request_decoding.text_or_empty(document.get("description")),
        }
        for name, document in (
            (name, object_fields(document)) for name, document in parameter_definitions.items()
        )
    }
    required: list[Json] = [
        name
        for name, definition in parameter_definitions.items()
        if object_fields(definition).get("required") is True
    ]
    schema: Json = {"type": "object", "properties": properties, "required": required}
    return request_decoding.decode_tool(fields, schema if parameter_definitions else None)
