"""Decodes Gemini requests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from llm_proxy.conversation import Conversation, RequestMessage, ToolDefinition
from llm_proxy.dialects import request_decoding
from llm_proxy.dialects.google import gemini_parts
from llm_proxy.dialects.google.field_names import camel_case_fields, decode_schema
from llm_proxy.dialects.lenient_json import (
    Fields,
    array_objects,
    compact_json,
    get_objects,
    get_string,
    object_fields,
    value_as_text,
)
from llm_proxy.turns import Json, Part, Reasoning, Text, ToolCall, ToolResult

_JSON_MIME_TYPE: Final = "application/json"
_OUTPUT_FIELDS: Final = ("output", "result")
"""The fields of a function response that hold its output."""
_DECLARATIONS_FIELD: Final = "functionDeclarations"


def decode_request(fields: Fields) -> Conversation:
    """The conversation of a body; Code Assist wraps it in `request`."""
    body = camel_case_fields(fields.get("request") or dict(fields))
    messages = request_decoding.merge_adjacent_messages(_decode_messages(body))
    config = camel_case_fields(body.get("generationConfig"))
    return Conversation(
        messages,
        system=_decode_system_prompt(body.get("systemInstruction"))
        or request_decoding.first_system_text(messages),
        tools=tuple(_decode_tools(body)),
        temperature=request_decoding.decode_number(config.get("temperature")),
        top_p=request_decoding.decode_number(config.get("topP")),
        reasoning_enabled=_enables_thinking(config.get("thinkingConfig")),
        response_schema=_response_schema(config),
    )


def _enables_thinking(value: Json) -> bool:
    """Whether there is a thinking config whose budget is not 0."""
    return isinstance(value, dict) and camel_case_fields(value).get("thinkingBudget") != 0


def _response_schema(config: Fields) -> Json:
    """The response schema, in either style; `{}` for any JSON, None for text."""
    fields = request_decoding.first_schema(
        config.get("responseJsonSchema"), decode_schema(config.get("responseSchema"))
    )
    return fields or ({} if config.get("responseMimeType") == _JSON_MIME_TYPE else None)


def _decode_system_prompt(value: Json) -> str:
    """The text of a system prompt, which is a content or a string."""
    parts = [Text(value)] if isinstance(value, str) else _decode_parts(object_fields(value))
    return request_decoding.request_message("system", parts).text


def _decode_messages(body: Fields) -> Iterator[RequestMessage]:
    contents = body.get("contents")
    for content in array_objects([contents] if isinstance(contents, dict) else contents):
        role = request_decoding.decode_role(content.get("role") or "user")
        if role is not None:
            yield request_decoding.request_message(role, _decode_parts(content))


def _decode_parts(fields: Fields) -> Iterator[Part]:
    value = fields.get("parts")
    for part_fields in array_objects([value] if isinstance(value, dict) else value):
        part = camel_case_fields(part_fields)
        kind = next((name for name in gemini_parts.PART_KINDS if name in part), "")
        yield from _decode_part(kind, part, camel_case_fields(part.get(kind)))


def _decode_part(kind: str, part: Fields, inner: Fields) -> Iterator[Part]:
    match kind:
        case "text" if part.get("thought") is True:
            signature = get_string(part, "thoughtSignature")
            yield Reasoning(get_string(part, "text"), signature or None)
        case "text":
            yield Text(get_string(part, "text"))
        case "functionCall":
            call_id, name = (
                request_decoding.text_or_empty(inner.get("id")),
                request_decoding.text_or_empty(inner.get("name")),
            )
            yield ToolCall(call_id, name, compact_json(inner.get("args") or {}))
        case "functionResponse":
            yield _decode_tool_result(inner)
        case "inlineData" | "fileData":
            yield gemini_parts.decode_media(inner)
        case "":
            pass
        case _:
            yield gemini_parts.decode_server_tool_part(kind, inner)


def _decode_tool_result(fields: Fields) -> ToolResult:
    """The result of a client's tool.

    Its content is the output field if that is the only one, else the whole response, which has
    failed where it has an error and no output.
    """
    response = fields.get("response")
    document = object_fields(response)
    output = next((document[name] for name in _OUTPUT_FIELDS if document.keys() == {name}), None)
    failed = output is None and bool(document.get("error")) and "output" not in document
    return ToolResult(
        request_decoding.text_or_empty(fields.get("id")),
        value_as_text(response if output is None else output),
        request_decoding.text_or_empty(fields.get("name")),
        failed,
    )


def _decode_tools(body: Fields) -> Iterator[ToolDefinition]:
    """The declared functions, and the tools that Google runs, named by their field."""
    for tool in map(camel_case_fields, get_objects(body, "tools")):
        for fields in map(camel_case_fields, get_objects(tool, _DECLARATIONS_FIELD)):
            schemas = (fields.get("parametersJsonSchema"), decode_schema(fields.get("parameters")))
            yield from request_decoding.decode_tool(fields, *schemas)
        yield from (
            ToolDefinition(name) for name, config in tool.items() if isinstance(config, dict)
        )
