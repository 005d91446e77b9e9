"""Decodes requests for an interaction, whose input is contents, steps or turns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from llm_proxy.conversation import Conversation, RequestMessage
from llm_proxy.dialects import request_decoding
from llm_proxy.dialects.google.field_names import decode_schema
from llm_proxy.dialects.google.interaction_steps import MEDIA_KINDS, StepDecoder
from llm_proxy.dialects.lenient_json import (
    Fields,
    array_objects,
    get_object,
    get_objects,
    get_string,
    object_fields,
)
from llm_proxy.turns import Json, Part, ToolResult

_CONTENT_TYPES: Final = ("text", *MEDIA_KINDS)
_INPUT_STEP: Final = "user_input"
_OUTPUT_STEP: Final = "model_output"
_RESULT_STEP: Final = "function_result"
_MODEL_STEPS: Final = (_OUTPUT_STEP, "thought")
"""Types of steps of the model, to which calls and results of Google's tools are added."""
_JSON_MIME_TYPE: Final = "application/json"


def decode_request(body: Fields) -> Conversation:
    """The conversation of the body of a new interaction."""
    items = _input_items(body.get("input"))
    messages = request_decoding.merge_adjacent_messages(
        _decode_messages(items), mergeable_roles=("assistant", "tool")
    )
    config = get_object(body, "generation_config")
    tools = get_objects(body, "tools")
    return Conversation(
        messages,
        system=request_decoding.text_or_empty(body.get("system_instruction"))
        or request_decoding.first_system_text(messages),
        tools=tuple(
            tool_definition
            for tool in tools
            for tool_definition in request_decoding.decode_tool(
                tool, decode_schema(tool.get("parameters"))
            )
        ),
        temperature=request_decoding.decode_number(config.get("temperature")),
        top_p=request_decoding.decode_number(config.get("top_p")),
        reasoning_enabled=request_decoding.is_reasoning_enabled(config.get("thinking_level")),
        response_schema=_response_schema(body),
        previous_response_id=request_decoding.text_or_empty(body.get("previous_interaction_id")),
        is_stored_by_provider=body.get("store") is not False,
    )


def _input_items(value: Json) -> list[Fields]:
    """The input as turns or steps; contents alone become one step of the user."""
    item: Json = {"type": "text", "text": value} if isinstance(value, str) else value
    items = array_objects(item if isinstance(item, list) else [item])
    if items and all(fields.get("type") in _CONTENT_TYPES for fields in items):
        return [{"type": _INPUT_STEP, "content": [dict(fields) for fields in items]}]
    return items


def _decode_messages(items: list[Fields]) -> Iterator[RequestMessage]:
    for item in items:
        kind = get_string(item, "type")
        if "role" in item:
            if role := request_decoding.decode_role(item.get("role")):
                yield request_decoding.request_message(role, _decode_contents(item.get("content")))
        elif kind == _INPUT_STEP:
            yield request_decoding.request_message("user", _decode_contents(item.get("content")))
        elif kind in _CONTENT_TYPES:
            yield request_decoding.request_message("user", _decode_parts(item))
        elif kind == _RESULT_STEP:
            yield request_decoding.request_message("tool", _decode_parts(item))
        elif kind in _MODEL_STEPS or kind.endswith(("_call", "_result")):
            parts = (
                _decode_contents(item.get("content"))
                if kind == _OUTPUT_STEP
                else _decode_parts(item)
            )
            yield request_decoding.request_message("assistant", parts)


def _decode_contents(value: Json) -> Iterator[Part]:
    """The parts of a content, of a list of contents, or of a string."""
    for content in value if isinstance(value, list) else [value]:
        yield from _decode_parts(
            {"type": "text", "text": content}
            if isinstance(content, str)
            else object_fields(content)
        )


def _decode_parts(fields: Fields) -> Iterator[Part]:
    if fields.get("type") == _RESULT_STEP:
        yield ToolResult(
            request_decoding.text_or_empty(fields.get("call_id")),
            request_decoding.tool_output_text(fields.get("result")),
            request_decoding.text_or_empty(fields.get("name")),
            failed=fields.get("is_error") is True,
        )
        return
    step = StepDecoder()
    step.feed(fields)
    yield from step.parts()


def _response_schema(body: Fields) -> Json:
    """The response schema of a `text` format, or of the older format, which is a schema.

    `{}` for any JSON, None for text.
    """
    value = body.get("response_format")
    for response_format in array_objects(value if isinstance(value, list) else [value]):
        if response_format.get("type") == "text":
            is_json = response_format.get("mime_type") == _JSON_MIME_TYPE
            return request_decoding.first_schema(decode_schema(response_format.get("schema"))) or (
                {} if is_json else None
            )
        if response_format.get("type") not in MEDIA_KINDS:
            return decode_schema(dict(response_format))
    return {} if body.get("response_mime_type") == _JSON_MIME_TYPE else None
