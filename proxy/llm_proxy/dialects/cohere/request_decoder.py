"""Decodes chat requests of Cohere's API, versions 2 and 1."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from llm_proxy.conversation import Conversation, RequestMessage, ToolDefinition
from llm_proxy.dialects import data_urls, lenient_json, request_decoding
from llm_proxy.dialects.cohere import v2_decoder
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.turns import Json, Part, Text, ToolCall, ToolResult

_TYPES: Final = {
    "str": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "list": "array",
    "dict": "object",
}
"""JSON Schema's names for the types of parameters, which version 1 calls as Python does."""


def decode_v2_request(body: Fields) -> Conversation:
    """The conversation that a chat of version 2 holds."""
    messages = request_decoding.merge_adjacent_roles(_decode_messages(body))
    fields = lenient_json.object_fields(body.get("response_format"))
    return Conversation(
        messages,
        system=request_decoding.leading_system_prompt(messages),
        tools=tuple(request_decoding.decode_function_tools(body.get("tools"))),
        temperature=request_decoding.decode_number(body.get("temperature")),
        top_p=request_decoding.decode_number(body.get("p")),
        reasoning_enabled=request_decoding.is_reasoning_enabled(
            lenient_json.object_fields(body.get("thinking")).get("type")
        ),
        response_schema=request_decoding.response_schema(
            fields, fields.get("json_schema"), fields.get("schema")
        ),
    )


def _decode_messages(body: Fields) -> Iterator[RequestMessage]:
    for object_item in lenient_json.object_items(body.get("messages")):
        match request_decoding.decode_role(object_item.get("role")):
            case None:
                pass
            case "tool":
                text = _tool_output_text(object_item.get("content"))
                call_id = request_decoding.text_or_empty(object_item.get("tool_call_id"))
                yield request_decoding.request_message("tool", [ToolResult(call_id, text)])
            case role:
                yield request_decoding.request_message(role, _decode_parts(object_item))


def _decode_parts(fields: Fields) -> Iterator[Part]:
    items = [part for _, part in v2_decoder.decode_fragments(fields, 0)]
    yield from (item for item in items if not isinstance(item, ToolCall))
    for block in lenient_json.object_items(fields.get("content")):
        if image := lenient_json.object_fields(block.get("image_url")):
            yield data_urls.decode_media_url(
                lenient_json.printable_text(image.get("url")), "image/*"
            )
    yield from (item for item in items if isinstance(item, ToolCall))


def _tool_output_text(content: Json) -> str:
    """What a tool gave: in words, or as documents, which hold words or fields."""
    documents = [
        lenient_json.object_fields(object_item.get("document"))
        for object_item in lenient_json.object_items(content)
    ]
    items = [
        lenient_json.printable_text(document.get("data"))
        for document in documents
        if document.get("data")
    ]
    return "\n".join(items) or request_decoding.tool_output_text(content)


def decode_v1_request(body: Fields) -> Conversation:
    """The conversation that a chat of version 1 holds: a history, and what is said now."""
    history = lenient_json.object_items(body.get("chat_history"))
    now: Fields = {**body, "role": "user"}
    messages = request_decoding.merge_adjacent_roles(
        decode_v1_turn for fields in (*history, now) for decode_v1_turn in _decode_v1_turns(fields)
    )
    fields = lenient_json.object_fields(body.get("response_format"))
    return Conversation(
        messages,
        system=request_decoding.text_or_empty(body.get("preamble"))
        or request_decoding.leading_system_prompt(messages),
        tools=tuple(
            tool_definition
            for object_item in lenient_json.object_items(body.get("tools"))
            for tool_definition in _decode_tool(object_item)
        ),
        temperature=request_decoding.decode_number(body.get("temperature")),
        top_p=request_decoding.decode_number(body.get("p")),
        response_schema=request_decoding.response_schema(
            fields, fields.get("schema"), fields.get("json_schema")
        ),
        stored_conversation_id=request_decoding.text_or_empty(body.get("conversation_id")),
    )


def _decode_v1_turns(fields: Fields) -> Iterator[RequestMessage]:
    """What one speaker says, and before it what the tools gave that stands beside."""
    if items := lenient_json.object_items(fields.get("tool_results")):
        yield request_decoding.request_message("tool", map(_decode_tool_result, items))
    role = request_decoding.decode_role(fields.get("role"))
    text = lenient_json.str_or_empty(fields.get("message"))
    calls = lenient_json.object_items(fields.get("tool_calls"))
    if role == "assistant" or (role is not None and text):
        yield request_decoding.request_message(role, [Text(text), *map(_decode_tool_call, calls)])


def _decode_tool_call(fields: Fields) -> ToolCall:
    return ToolCall(
        "",
        request_decoding.text_or_empty(fields.get("name")),
        lenient_json.printable_text(fields.get("parameters")),
    )


def _decode_tool_result(fields: Fields) -> ToolResult:
    call = lenient_json.object_fields(fields.get("call"))
    name = request_decoding.text_or_empty(call.get("name"))
    return ToolResult("", request_decoding.tool_output_text(fields.get("outputs")), name)


def _decode_tool(fields: Fields) -> Iterator[ToolDefinition]:
    defined = lenient_json.object_fields(fields.get("parameter_definitions"))
    properties: dict[str, Json] = {
        name: {
            "type": _TYPES.get(lenient_json.str_or_empty(document.get("type")), "string"),
            "description": request_decoding.text_or_empty(document.get("description")),
        }
        for name, document in (
            (name, lenient_json.object_fields(document)) for name, document in defined.items()
        )
    }
    required: list[Json] = [
        name
        for name, it in defined.items()
        if lenient_json.object_fields(it).get("required") is True
    ]
    wanted: Json = {"type": "object", "properties": properties, "required": required}
    return request_decoding.decode_tool(fields, wanted if defined else None)
