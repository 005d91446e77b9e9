"""Decodes Gemini requests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from llm_proxy.conversation import Conversation, RequestMessage, ToolDefinition
from llm_proxy.dialects import lenient_json, request_decoding
from llm_proxy.dialects.google import content_decoder
from llm_proxy.dialects.google.field_names import camel_case_fields, decode_schema
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.turns import Json, Part, Reasoning, Text, ToolCall, ToolResult

_JSON: Final = "application/json"
_OUTPUTS: Final = ("output", "result")
"""The fields in which a tool's answer is told."""
_DECLARED: Final = "functionDeclarations"


def decode_request(fields: Fields) -> Conversation:
    """The conversation that a body holds; that of Code Assist wraps it."""
    body = camel_case_fields(fields.get("request") or dict(fields))
    messages = request_decoding.merge_adjacent_roles(_decode_messages(body))
    config = camel_case_fields(body.get("generationConfig"))
    return Conversation(
        messages,
        system=_decode_system_prompt(body.get("systemInstruction"))
        or request_decoding.leading_system_prompt(messages),
        tools=tuple(_decode_tools(body)),
        temperature=request_decoding.decode_number(config.get("temperature")),
        top_p=request_decoding.decode_number(config.get("topP")),
        reasoning_enabled=_enables_thinking(config.get("thinkingConfig")),
        response_schema=_response_schema(config),
    )


def _enables_thinking(value: Json) -> bool:
    """A budget of nought is off; what else stands there, or nothing, is on."""
    return isinstance(value, dict) and camel_case_fields(value).get("thinkingBudget") != 0


def _response_schema(config: Fields) -> Json:
    """The schema of the answer, in either spelling; `{}` where it may be any JSON."""
    fields = request_decoding.first_schema(
        config.get("responseJsonSchema"), decode_schema(config.get("responseSchema"))
    )
    return fields or ({} if config.get("responseMimeType") == _JSON else None)


def _decode_system_prompt(value: Json) -> str:
    """The system prompt: a content, or its text alone."""
    parts = (
        [Text(value)]
        if isinstance(value, str)
        else _decode_parts(lenient_json.object_fields(value))
    )
    return request_decoding.request_message("system", parts).text


def _decode_messages(body: Fields) -> Iterator[RequestMessage]:
    contents = body.get("contents")
    for object_item in lenient_json.object_items(
        [contents] if isinstance(contents, dict) else contents
    ):
        role = request_decoding.decode_role(object_item.get("role") or "user")
        if role is not None:
            yield request_decoding.request_message(role, _decode_parts(object_item))


def _decode_parts(fields: Fields) -> Iterator[Part]:
    value = fields.get("parts")
    for object_item in lenient_json.object_items([value] if isinstance(value, dict) else value):
        part = camel_case_fields(object_item)
        kind = next((name for name in content_decoder.KNOWN if name in part), "")
        yield from _decode_part(kind, part, camel_case_fields(part.get(kind)))


def _decode_part(kind: str, part: Fields, inner: Fields) -> Iterator[Part]:
    match kind:
        case "text" if part.get("thought") is True:
            seal = lenient_json.str_or_empty(part.get("thoughtSignature"))
            yield Reasoning(lenient_json.str_or_empty(part.get("text")), seal or None)
        case "text":
            yield Text(lenient_json.str_or_empty(part.get("text")))
        case "functionCall":
            call_id, name = (
                request_decoding.text_or_empty(inner.get("id")),
                request_decoding.text_or_empty(inner.get("name")),
            )
            yield ToolCall(call_id, name, lenient_json.compact_json(inner.get("args") or {}))
        case "functionResponse":
            yield _tool_result_text(inner)
        case "inlineData" | "fileData":
            yield content_decoder.decode_media(inner)
        case "":
            pass
        case _:
            yield content_decoder.decode_server_tool(kind, inner)


def _tool_result_text(fields: Fields) -> ToolResult:
    """What a tool of the client's gave: one field of the response, an error, or all of it."""
    response = fields.get("response")
    document = lenient_json.object_fields(response)
    value = next((document[name] for name in _OUTPUTS if document.keys() == {name}), None)
    failed = value is None and bool(document.get("error")) and "output" not in document
    return ToolResult(
        request_decoding.text_or_empty(fields.get("id")),
        lenient_json.printable_text(response if value is None else value),
        request_decoding.text_or_empty(fields.get("name")),
        failed,
    )


def _decode_tools(body: Fields) -> Iterator[ToolDefinition]:
    """Every function that is declared, and the tools that Google runs, by their fields."""
    for offered in map(camel_case_fields, lenient_json.object_items(body.get("tools"))):
        for fields in map(camel_case_fields, lenient_json.object_items(offered.get(_DECLARED))):
            schemas = (fields.get("parametersJsonSchema"), decode_schema(fields.get("parameters")))
            yield from request_decoding.decode_tool(fields, *schemas)
        yield from (ToolDefinition(name) for name, it in offered.items() if isinstance(it, dict))
