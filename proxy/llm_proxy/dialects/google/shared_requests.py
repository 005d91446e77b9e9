"""What requests of Google's APIs share: spellings of names, schemas, tool choices, parts.

Gemini's clients write names of fields in camel case or with underscores: `responseSchema` and
`response_schema`.  A schema has two styles, too: JSON Schema, and one of Google's own with
upper-case types and limits that may be strings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from llm_proxy.conversation import ForcedTool, ToolChoice
from llm_proxy.dialects import encoding, request_decoding, request_encoding
from llm_proxy.dialects.lenient_json import Fields, str_or_empty
from llm_proxy.turns import Json, Media, Part, Reasoning, Refusal, Text, ToolCall, ToolResult

JSON_MIME_TYPE: Final = "application/json"
"""The type of a response that matches a schema, or that is any JSON."""

_UNDERSCORE_LETTER: Final = re.compile("(?<=[a-z0-9])_([a-z])")
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

_MODES: Final[Mapping[ToolChoice, str]] = {"auto": "auto", "none": "none", "required": "any"}
_VALIDATED: Final = "validated"
"""The mode `auto` with calls that match their schemas."""


def camel_case_fields(value: Json | Fields) -> Fields:
    """The fields of an object with names in camel case; nested objects are unchanged."""
    if not isinstance(value, Mapping):
        return {}
    return {
        _UNDERSCORE_LETTER.sub(lambda match: match[1].upper(), name): content
        for name, content in value.items()
    }


def decode_schema(value: Json, remaining_depth: int = _MAX_SCHEMA_DEPTH) -> Json:
    """A schema in Google's style as a JSON Schema; any other value unchanged."""
    if not isinstance(value, dict) or remaining_depth == 0:
        return value
    schema: dict[str, Json] = {}
    for name, content in camel_case_fields(value).items():
        match content:
            case str() if name == "type":
                schema[name] = content.lower()
            case str() if name in _INTEGER_FIELDS and _DIGITS.fullmatch(content):
                schema[name] = int(content)
            case dict() if name in _SCHEMA_MAP_FIELDS:
                schema[name] = {
                    key: decode_schema(subschema, remaining_depth - 1)
                    for key, subschema in content.items()
                }
            case list() if name in _SCHEMA_LIST_FIELDS:
                schema[name] = [
                    decode_schema(subschema, remaining_depth - 1) for subschema in content
                ]
            case dict() if name in _SCHEMA_FIELDS:
                schema[name] = decode_schema(content, remaining_depth - 1)
            case _:
                schema[name] = content
    return schema


def decode_tool_choice(mode: Json, allowed_names: Json) -> ToolChoice | None:
    """The tool choice of a mode and the names of the tools that it allows."""
    word = str_or_empty(mode).lower()
    match allowed_names:
        case [str() as name] if word == _MODES["required"] and name:
            return ForcedTool(request_decoding.text_or_empty(name))
        case _:
            return "auto" if word == _VALIDATED else request_decoding.decode_tool_choice(word)


def encode_tool_choice(choice: ToolChoice) -> tuple[str, list[str]]:
    """The mode of a tool choice, and the names of the tools that it allows: all if there are none.

    Both APIs have these two, with names and places of their own.
    """
    match choice:
        case ForcedTool(name):
            return _MODES["required"], [name]
        case word:
            return _MODES[word], []


def own_part(dialect: str, part: Part, is_own_result: Callable[[ToolResult], bool]) -> Part | None:
    """A part of the model as Google's own; None for reasoning of another provider."""
    match part:
        case Refusal(text=text):
            return Text(text)
        case Reasoning() if part.redacted or part.metadata:
            return None
        case ToolCall():
            arguments = encoding.normalized_object_json(part.arguments or "{}")
            if arguments is None:
                raise encoding.arguments_error(dialect, part)
            return replace(part, arguments=arguments)
        case ToolResult() if not is_own_result(part):
            raise request_encoding.part_refusal(dialect, part, "assistant")
        case _:
            return part


def check_media(dialect: str, media: Media) -> None:
    """Refuse media without a source, and inline media of an unknown type."""
    if not (has_known_type(media) if media.base64 else media.url):
        raise request_encoding.media_refusal(dialect, media)


def has_known_type(media: Media) -> bool:
    """Whether the type is that of one format; for media by URL, the server finds it out."""
    return bool(media.media_type) and not media.media_type.endswith("*")
