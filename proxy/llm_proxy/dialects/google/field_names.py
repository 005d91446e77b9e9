"""Google's two field name styles: `responseSchema` and `response_schema`.

A schema has two styles, too: JSON Schema, and one of Google's own with upper-case types and
limits that may be strings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.turns import Json

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
_MAX_DEPTH: Final = 32
"""Deeper schemas are left unchanged."""


def camel_case_fields(value: Json | Fields) -> Fields:
    """The fields of an object with names in camel case; nested objects are unchanged."""
    return (
        {_camel_case(name): content for name, content in value.items()}
        if isinstance(value, Mapping)
        else {}
    )


def _camel_case(name: str) -> str:
    return _UNDERSCORE_LETTER.sub(lambda match: match[1].upper(), name)


def decode_schema(value: Json) -> Json:
    """A schema in Google's style as a JSON Schema; None where it is not an object."""
    return _decode_subschema(value, _MAX_DEPTH) if isinstance(value, dict) else None


def _decode_subschema(value: Json, remaining_depth: int) -> Json:
    if not isinstance(value, dict) or remaining_depth == 0:
        return value
    return {
        name: _decode_schema_field(name, content, remaining_depth - 1)
        for name, content in camel_case_fields(value).items()
    }


def _decode_schema_field(name: str, value: Json, remaining_depth: int) -> Json:
    match value:
        case str() if name == "type":
            return value.lower()
        case str() if name in _INTEGER_FIELDS and _DIGITS.fullmatch(value):
            return int(value)
        case dict() if name in _SCHEMA_MAP_FIELDS:
            return {
                key: _decode_subschema(subschema, remaining_depth)
                for key, subschema in value.items()
            }
        case list() if name in _SCHEMA_LIST_FIELDS:
            return [_decode_subschema(subschema, remaining_depth) for subschema in value]
        case dict() if name in _SCHEMA_FIELDS:
            return _decode_subschema(value, remaining_depth)
        case _:
            return value
