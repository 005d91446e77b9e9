"""Google's two field name styles: `responseSchema` and `response_schema`.

A schema has two spellings, too: JSON Schema, and one of Google's own whose types are in capitals
and whose limits may be strings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.turns import Json

_JOINT: Final = re.compile("_([a-z])")
_NUMBER: Final = re.compile("[0-9]{1,15}")

_EACH: Final = ("properties", "$defs", "defs")
"""The fields of a schema that hold schemas by name."""
_LISTS: Final = ("anyOf", "prefixItems")
_INNER: Final = ("items", "additionalProperties")
_LIMITS: Final = (
    *("minItems", "maxItems", "minLength", "maxLength"),
    *("minProperties", "maxProperties"),
)
_DEEPEST: Final = 32
"""What lies deeper stays as it is."""


def camel_case_fields(value: Json | Fields) -> Fields:
    """The fields of an object under the names that its documentation uses; not those within."""
    return (
        {_camel_case(name): content for name, content in value.items()}
        if isinstance(value, Mapping)
        else {}
    )


def _camel_case(name: str) -> str:
    return _JOINT.sub(lambda joint: joint[1].upper(), name)


def decode_schema(value: Json) -> Json:
    """A schema in Google's own spelling as a JSON Schema; None where it is none."""
    return _decode_subschema(value, _DEEPEST) if isinstance(value, dict) else None


def _decode_subschema(value: Json, depth: int) -> Json:
    if not isinstance(value, dict) or depth == 0:
        return value
    return {
        name: _decode_schema_field(name, content, depth - 1)
        for name, content in camel_case_fields(value).items()
    }


def _decode_schema_field(name: str, value: Json, depth: int) -> Json:
    match value:
        case str() if name == "type":
            return value.lower()
        case str() if name in _LIMITS and _NUMBER.fullmatch(value):
            return int(value)
        case dict() if name in _EACH:
            return {key: _decode_subschema(argument, depth) for key, argument in value.items()}
        case list() if name in _LISTS:
            return [_decode_subschema(content, depth) for content in value]
        case dict() if name in _INNER:
            return _decode_subschema(value, depth)
        case _:
            return value
