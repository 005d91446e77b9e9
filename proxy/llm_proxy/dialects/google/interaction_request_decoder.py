"""Decodes requests for an interaction, whose input is contents, steps or turns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from llm_proxy.conversation import Conversation, RequestMessage
from llm_proxy.dialects import lenient_json, request_decoding
from llm_proxy.dialects.google.field_names import decode_schema
from llm_proxy.dialects.google.step_decoder import MEDIA, StepDecoder
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.turns import Json, Part, ToolResult

_CONTENTS: Final = ("text", *MEDIA)
_INPUT: Final = "user_input"
_OUTPUT: Final = "model_output"
_RESULT: Final = "function_result"
_MADE: Final = (_OUTPUT, "thought")
"""Types of steps that the model makes; so are calls, and what Google's own tools give."""
_JSON: Final = "application/json"


def decode_request(body: Fields) -> Conversation:
    """The conversation that a body holds."""
    items = _input_items(body.get("input"))
    messages = request_decoding.merge_adjacent_roles(
        _decode_messages(items), mergeable_roles=("assistant", "tool")
    )
    config = lenient_json.object_fields(body.get("generation_config"))
    tools = lenient_json.object_items(body.get("tools"))
    return Conversation(
        messages,
        system=request_decoding.text_or_empty(body.get("system_instruction"))
        or request_decoding.leading_system_prompt(messages),
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
    """The turns or steps; contents alone are what the user says at once."""
    item: Json = {"type": "text", "text": value} if isinstance(value, str) else value
    listed = lenient_json.object_items(item if isinstance(item, list) else [item])
    if listed and all(fields.get("type") in _CONTENTS for fields in listed):
        return [{"type": _INPUT, "content": [dict(fields) for fields in listed]}]
    return listed


def _decode_messages(items: list[Fields]) -> Iterator[RequestMessage]:
    for item in items:
        kind = lenient_json.str_or_empty(item.get("type"))
        if "role" in item:
            if role := request_decoding.decode_role(item.get("role")):
                yield request_decoding.request_message(role, _content_items(item.get("content")))
        elif kind == _INPUT:
            yield request_decoding.request_message("user", _content_items(item.get("content")))
        elif kind in _CONTENTS:
            yield request_decoding.request_message("user", _decode_parts(item))
        elif kind == _RESULT:
            yield request_decoding.request_message("tool", _decode_parts(item))
        elif kind in _MADE or kind.endswith(("_call", "_result")):
            parts = _content_items(item.get("content")) if kind == _OUTPUT else _decode_parts(item)
            yield request_decoding.request_message("assistant", parts)


def _content_items(value: Json) -> Iterator[Part]:
    """Contents, each by itself: one, several, or a text alone."""
    for content in value if isinstance(value, list) else [value]:
        yield from _decode_parts(
            {"type": "text", "text": content}
            if isinstance(content, str)
            else lenient_json.object_fields(content)
        )


def _decode_parts(fields: Fields) -> Iterator[Part]:
    if fields.get("type") == _RESULT:
        yield ToolResult(
            request_decoding.text_or_empty(fields.get("call_id")),
            request_decoding.tool_output_text(fields.get("result")),
            request_decoding.text_or_empty(fields.get("name")),
            failed=fields.get("is_error") is True,
        )
        return
    step = StepDecoder()
    step.feed(fields)
    yield from step.result()


def _response_schema(body: Fields) -> Json:
    """The schema of the answer: of a format in words, or as it was before formats had types."""
    value = body.get("response_format")
    for form in lenient_json.object_items(value if isinstance(value, list) else [value]):
        if form.get("type") == "text":
            is_json = form.get("mime_type") == _JSON
            return request_decoding.first_schema(decode_schema(form.get("schema"))) or (
                {} if is_json else None
            )
        if form.get("type") not in MEDIA:
            return decode_schema(dict(form))
    return {} if body.get("response_mime_type") == _JSON else None
