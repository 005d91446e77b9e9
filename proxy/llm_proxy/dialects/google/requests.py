"""Decodes requests of Google's APIs: Gemini's contents; an interaction's contents, steps or turns.

Gemini's clients write names of fields in camel case or with underscores: `responseSchema` and
`response_schema`.  A schema has two styles, too: JSON Schema, and one of Google's own with
upper-case types and limits that may be strings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from llm_proxy.conversation import Conversation, RequestMessage, ToolDefinition
from llm_proxy.dialects import request_decoding
from llm_proxy.dialects.google import gemini_parts
from llm_proxy.dialects.google.interaction_steps import MEDIA_KINDS, StepDecoder
from llm_proxy.dialects.lenient_json import (
    Fields,
    get_object,
    get_objects,
    get_string,
    object_fields,
    one_or_more_objects,
    value_as_text,
)
from llm_proxy.turns import Json, Part, Text, ToolResult

_UNDERSCORE_LETTER: Final = re.compile("_([a-z])")
_DIGITS: Final = re.compile("[0-9]{1,15}")
_SCHEMA_MAP_FIELDS: Final = ("properties", "$defs", "defs")
"""The fields of a schema that hold schemas by name."""
_SCHEMA_LIST_FIELDS: Final = ("anyOf", "prefixItems")
_SCHEMA_FIELDS: Final = ("items", "additionalProperties")
_INTEGER_FIELDS: Final = (
    *("minItems", "maxItems", "minLength", "maxLength"),
    *("minProperties", "maxProperties"),
)
_MAX_SCHEMA_DEPTH: Final = 32
"""Deeper schemas are left unchanged."""

_JSON_MIME_TYPE: Final = "application/json"
_OUTPUT_FIELDS: Final = ("output", "result")
"""The fields of a function response that hold its output."""

_CONTENT_TYPES: Final = ("text", *MEDIA_KINDS)
_INPUT_STEP, _OUTPUT_STEP, _RESULT_STEP = "user_input", "model_output", "function_result"
_MODEL_STEPS: Final = (_OUTPUT_STEP, "thought")
"""Types of steps of the model, to which calls and results of Google's tools are added."""


def _camel_case_fields(value: Json | Fields) -> Fields:
    """The fields of an object with names in camel case; nested objects are unchanged."""
    if not isinstance(value, Mapping):
        return {}
    return {
        _UNDERSCORE_LETTER.sub(lambda match: match[1].upper(), name): content
        for name, content in value.items()
    }


def _decode_schema(value: Json, remaining_depth: int = _MAX_SCHEMA_DEPTH) -> Json:
    """A schema in Google's style as a JSON Schema; any other value unchanged."""
    if not isinstance(value, dict) or remaining_depth == 0:
        return value
    schema: dict[str, Json] = {}
    for name, content in _camel_case_fields(value).items():
        match content:
            case str() if name == "type":
                schema[name] = content.lower()
            case str() if name in _INTEGER_FIELDS and _DIGITS.fullmatch(content):
                schema[name] = int(content)
            case dict() if name in _SCHEMA_MAP_FIELDS:
                schema[name] = {
                    key: _decode_schema(subschema, remaining_depth - 1)
                    for key, subschema in content.items()
                }
            case list() if name in _SCHEMA_LIST_FIELDS:
                schema[name] = [
                    _decode_schema(subschema, remaining_depth - 1) for subschema in content
                ]
            case dict() if name in _SCHEMA_FIELDS:
                schema[name] = _decode_schema(content, remaining_depth - 1)
            case _:
                schema[name] = content
    return schema


def decode_gemini_request(fields: Fields) -> Conversation:
    """The conversation of a body of `gemini`; Code Assist wraps it in `request`."""
    body = _camel_case_fields(fields.get("request") or dict(fields))
    system = body.get("systemInstruction")
    parts = [Text(system)] if isinstance(system, str) else _decode_parts(object_fields(system))
    config = _camel_case_fields(body.get("generationConfig"))
    thinking = config.get("thinkingConfig")
    schema = request_decoding.first_schema(
        config.get("responseJsonSchema"), _decode_schema(config.get("responseSchema"))
    )
    return replace(
        request_decoding.conversation(
            _decode_contents(body),
            config,
            request_decoding.request_message("system", parts).text,
            top_p_name="topP",
        ),
        tools=tuple(_decode_tools(body)),
        reasoning_enabled=isinstance(thinking, dict)
        and _camel_case_fields(thinking).get("thinkingBudget") != 0,
        response_schema=schema
        or ({} if config.get("responseMimeType") == _JSON_MIME_TYPE else None),
    )


def _decode_contents(body: Fields) -> Iterator[RequestMessage]:
    for content in one_or_more_objects(body.get("contents")):
        role = request_decoding.decode_role(content.get("role") or "user")
        if role is not None:
            yield request_decoding.request_message(role, _decode_parts(content))


def _decode_parts(content: Fields) -> Iterator[Part]:
    for given in one_or_more_objects(content.get("parts")):
        part = _camel_case_fields(given)
        kind = next((name for name in gemini_parts.PART_KINDS if name in part), "")
        inner = _camel_case_fields(part.get(kind))
        if kind == "functionResponse":
            yield _decode_function_response(inner)
            continue
        decoder = gemini_parts.ContentDecoder()
        decoder.feed(part if kind == "text" else {**part, kind: dict(inner)})
        yield from decoder.parts()


def _decode_function_response(fields: Fields) -> ToolResult:
    """The result of a client's tool.

    Its content is the output field if that is the only one, else the whole response, which has
    failed where it has an error and no output.
    """
    response = fields.get("response")
    document = object_fields(response)
    output = next((document[name] for name in _OUTPUT_FIELDS if document.keys() == {name}), None)
    failed = output is None and bool(document.get("error")) and "output" not in document
    content = value_as_text(response if output is None else output)
    return ToolResult(get_string(fields, "id"), content, get_string(fields, "name"), failed)


def _decode_tools(body: Fields) -> Iterator[ToolDefinition]:
    """The declared functions, and the tools that Google runs, named by their field."""
    for tool in map(_camel_case_fields, get_objects(body, "tools")):
        for fields in map(_camel_case_fields, get_objects(tool, "functionDeclarations")):
            schemas = (fields.get("parametersJsonSchema"), _decode_schema(fields.get("parameters")))
            yield from request_decoding.decode_tool(fields, *schemas)
        yield from (
            ToolDefinition(name, built_in_type=name)
            for name, config in tool.items()
            if isinstance(config, dict)
        )


def decode_interaction_request(body: Fields) -> Conversation:
    """The conversation of the body of a new interaction."""
    config = get_object(body, "generation_config")
    return replace(
        request_decoding.conversation(
            _decode_steps(body.get("input")),
            config,
            request_decoding.text_or_empty(body.get("system_instruction")),
            mergeable_roles=("assistant", "tool"),
        ),
        tools=tuple(
            definition
            for tool in get_objects(body, "tools")
            for definition in request_decoding.decode_tool(
                tool, _decode_schema(tool.get("parameters"))
            )
        ),
        reasoning_enabled=request_decoding.is_reasoning_enabled(config.get("thinking_level")),
        response_schema=_interaction_response_schema(body),
        previous_response_id=request_decoding.text_or_empty(body.get("previous_interaction_id")),
        is_stored_by_provider=body.get("store") is not False,
    )


def _decode_steps(value: Json) -> Iterator[RequestMessage]:
    """The input as turns or steps; contents alone become one step of the user."""
    items = one_or_more_objects(
        {"type": "text", "text": value} if isinstance(value, str) else value
    )
    if items and all(item.get("type") in _CONTENT_TYPES for item in items):
        items = [{"type": _INPUT_STEP, "content": [dict(item) for item in items]}]
    for item in items:
        kind, content = get_string(item, "type"), item.get("content")
        if "role" in item:
            if role := request_decoding.decode_role(item.get("role")):
                yield request_decoding.request_message(role, _decode_step_contents(content))
        elif kind == _INPUT_STEP:
            yield request_decoding.request_message("user", _decode_step_contents(content))
        elif kind in _CONTENT_TYPES:
            yield request_decoding.request_message("user", _decode_step_contents(dict(item)))
        elif kind == _RESULT_STEP:
            yield request_decoding.request_message("tool", _decode_step_contents(dict(item)))
        elif kind in _MODEL_STEPS or kind.endswith(("_call", "_result")):
            parts = _decode_step_contents(content if kind == _OUTPUT_STEP else dict(item))
            yield request_decoding.request_message("assistant", parts)


def _decode_step_contents(value: Json) -> Iterator[Part]:
    """The parts of a step or content, of a list of contents, or of a string."""
    for content in value if isinstance(value, list) else [value]:
        fields: Fields = {"type": "text", "text": content}
        if not isinstance(content, str):
            fields = object_fields(content)
        if fields.get("type") == _RESULT_STEP:
            yield ToolResult(
                get_string(fields, "call_id"),
                request_decoding.tool_output_text(fields.get("result")),
                get_string(fields, "name"),
                failed=fields.get("is_error") is True,
            )
            continue
        step = StepDecoder()
        step.feed(fields)
        yield from step.parts()


def _interaction_response_schema(body: Fields) -> Json:
    """The response schema of a `text` format, or of the older format, which is a schema.

    `{}` for any JSON, None for text.
    """
    for response_format in one_or_more_objects(body.get("response_format")):
        if response_format.get("type") == "text":
            is_json = response_format.get("mime_type") == _JSON_MIME_TYPE
            schema = _decode_schema(response_format.get("schema"))
            return request_decoding.first_schema(schema) or ({} if is_json else None)
        if response_format.get("type") not in MEDIA_KINDS:
            return _decode_schema(dict(response_format))
    return {} if body.get("response_mime_type") == _JSON_MIME_TYPE else None
