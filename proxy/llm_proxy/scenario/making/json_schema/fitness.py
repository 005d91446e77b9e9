"""Whether a value is valid against a JSON Schema, by the rules that `schemas` reads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from llm_proxy.dialects import reading
from llm_proxy.dialects.reading import Fields
from llm_proxy.scenario.making.json_schema import numbers, texts
from llm_proxy.scenario.making.json_schema.merging import NoValue, alike
from llm_proxy.scenario.making.json_schema.schemas import Schemas, plain
from llm_proxy.turns import Json

_DEEPEST: Final = 200
"""Schemas within each other, references counted."""


@dataclass(frozen=True, slots=True)
class Fitness:
    """The rules of a whole schema."""

    schemas: Schemas

    def fits(self, value: Json, schema: Json, depth: int = 0) -> bool:
        """Whether the value is valid.  Raises `NoValue` for a schema that is not understood."""
        if depth > _DEEPEST:
            raise NoValue("its schemas are nested too deeply")
        fields = plain(schema)
        below = depth + 1
        return (
            is_plainly(value, fields)
            and all(self.fits(value, it, below) for it in self._parts(fields))
            and self._combined(value, fields, below)
            and all(self.fits(it, schema, below) for it, schema in _within(value, fields))
        )

    def _parts(self, fields: Fields) -> Iterator[Json]:
        """The schemas that must all hold."""
        yield from reading.array(fields.get("allOf"))
        if "$ref" in fields:
            yield self.schemas.target(reading.text(fields["$ref"]) or "#")

    def _combined(self, value: Json, fields: Fields, depth: int) -> bool:
        """Whether as many of the schemas hold as should."""
        if "anyOf" in fields:
            any_of = reading.array(fields["anyOf"])
            if not any(self.fits(value, it, depth) for it in any_of):
                return False
        if "oneOf" in fields:
            one_of = reading.array(fields["oneOf"])
            if sum(self.fits(value, it, depth) for it in one_of) != 1:
                return False
        if "not" in fields and self.fits(value, fields["not"], depth):
            return False
        if "if" in fields:
            then = "then" if self.fits(value, fields["if"], depth) else "else"
            return self.fits(value, fields.get(then, True), depth)
        return True


def is_plainly(value: Json, fields: Fields) -> bool:
    """Whether the value keeps the rules that name no other schema."""
    types = reading.array(fields.get("type"))
    if types and not any(_is(value, reading.text(it)) for it in types):
        return False
    if "enum" in fields and not any(alike(value, it) for it in reading.array(fields["enum"])):
        return False
    match value:
        case bool() | None:
            return True
        case int() | float():
            steps = numbers.numbers(fields.get("multipleOf"))
            divided = all(numbers.divides(step, value) for step in steps)
            return divided and numbers.within(value, fields)
        case str():
            pattern, form = reading.text(fields.get("pattern")), reading.text(fields.get("format"))
            is_formed = texts.is_of_format(value, form) and (not pattern or found(pattern, value))
            return is_formed and _counts(len(value), fields, "Length")
        case list():
            is_set = fields.get("uniqueItems") is True
            return _counts(len(value), fields, "Items") and not (is_set and repeats(value))
        case dict():
            required = [it for it in reading.array(fields.get("required")) if isinstance(it, str)]
            return _counts(len(value), fields, "Properties") and all(it in value for it in required)


def found(pattern: str, text: str) -> bool:
    """Whether a text matches.  Raises `NoValue` for a pattern that is none here."""
    try:
        return re.search(pattern, text) is not None
    except (re.error, RecursionError, OverflowError):
        raise NoValue(f"the pattern {pattern} is not understood") from None


def repeats(values: list[Json]) -> bool:
    """Whether any value comes twice."""
    return any(alike(it, other) for at, it in enumerate(values) for other in values[:at])


def of_property(name: str, fields: Fields) -> Json:
    """The schema of a property of this name; False where it must not be."""
    properties = reading.fields(fields.get("properties"))
    patterns = reading.fields(fields.get("patternProperties"))
    schemas = [properties[name]] if name in properties else []
    schemas += [schema for pattern, schema in patterns.items() if found(pattern, name)]
    if not schemas:
        return fields.get("additionalProperties", True)
    return schemas[0] if len(schemas) == 1 else {"allOf": schemas}


def _within(value: Json, fields: Fields) -> Iterator[tuple[Json, Json]]:
    """What is in a value, each with its schema."""
    match value:
        case dict():
            for name, it in value.items():
                yield it, of_property(name, fields)
                yield name, fields.get("propertyNames", True)
        case list():
            first = reading.array(fields.get("prefixItems"))
            yield from zip(value, first, strict=False)
            yield from ((it, fields.get("items", True)) for it in value[len(first) :])
        case _:
            pass


def _is(value: Json, kind: str) -> bool:
    match value:
        case None:
            return kind == "null"
        case bool():
            return kind == "boolean"
        case int():
            return kind in {"integer", "number"}
        case float():
            return kind == "number" or (kind == "integer" and value.is_integer())
        case str():
            return kind == "string"
        case list():
            return kind == "array"
        case dict():
            return kind == "object"


def _counts(count: int, fields: Fields, what: str) -> bool:
    """Whether there are neither too few nor too many."""
    least, most = reading.count(fields.get(f"min{what}")), reading.count(fields.get(f"max{what}"))
    return (least is None or count >= least) and (most is None or count <= most)
