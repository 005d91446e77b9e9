"""How Google's JSON spells: fields have two names, `responseSchema` and `response_schema`.

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


def camel(value: Json | Fields) -> Fields:
    """The fields of an object under the names that its documentation uses; not those within."""
    return {_camel(name): it for name, it in value.items()} if isinstance(value, Mapping) else {}


def _camel(name: str) -> str:
    return _JOINT.sub(lambda joint: joint[1].upper(), name)


def schema(value: Json) -> Json:
    """A schema in Google's own spelling as a JSON Schema; None where it is none."""
    return _schema(value, _DEEPEST) if isinstance(value, dict) else None


def _schema(value: Json, depth: int) -> Json:
    if not isinstance(value, dict) or depth == 0:
        return value
    return {name: _field(name, it, depth - 1) for name, it in camel(value).items()}


def _field(name: str, value: Json, depth: int) -> Json:
    match value:
        case str() if name == "type":
            return value.lower()
        case str() if name in _LIMITS and _NUMBER.fullmatch(value):
            return int(value)
        case dict() if name in _EACH:
            return {key: _schema(it, depth) for key, it in value.items()}
        case list() if name in _LISTS:
            return [_schema(it, depth) for it in value]
        case dict() if name in _INNER:
            return _schema(value, depth)
        case _:
            return value
