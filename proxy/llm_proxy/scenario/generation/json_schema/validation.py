"""Whether a value is valid against a JSON Schema, by the rules that `schemas` reads."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.scenario.generation.json_schema import numbers, texts
from llm_proxy.scenario.generation.json_schema.budget import SchemaBudget
from llm_proxy.scenario.generation.json_schema.merging import NoValue, key
from llm_proxy.scenario.generation.json_schema.regex_engine import found
from llm_proxy.scenario.generation.json_schema.regex_parser import (
    AnchoredAlternative,
    parse_expression,
)
from llm_proxy.scenario.generation.json_schema.schemas import Schemas, plain
from llm_proxy.turns import Json

_DEEPEST: Final = 200
"""Schemas within each other, references counted."""


@dataclass(frozen=True, slots=True)
class Fitness:
    """The rules of a whole schema, and what is known of it so far: lists and expressions read."""

    schemas: Schemas
    budget: SchemaBudget
    by_format: bool = True
    """Whether a text must be of its format; where it is too short for it, it cannot be."""
    _listed: dict[int, tuple[list[Json], frozenset[Hashable]]] = field(default_factory=dict)
    _read: dict[str, tuple[AnchoredAlternative, ...]] = field(default_factory=dict)

    def fits(self, value: Json, schema: Json, depth: int = 0) -> bool:
        """Whether the value is valid.

        Raises `NoValue` for a schema that is not understood, `TooMuch` where it takes too long.
        """
        self.budget.spend()
        if schema is True:
            return True
        if depth > _DEEPEST:
            raise NoValue("its schemas are nested too deeply")
        self.budget.spend(2)
        fields = plain(schema, self.budget)
        below = depth + 1
        return (
            self._is_plainly(value, fields)
            and all(self.fits(value, part, below) for part in self._parts(fields))
            and self._combined(value, fields, below)
            and all(
                self.fits(content, schema, below) for content, schema in self._within(value, fields)
            )
        )

    def of_property(self, name: str, fields: Fields) -> Json:
        """The schema of a property of this name; False where it must not be."""
        properties = lenient_json.object_fields(fields.get("properties"))
        patterns = lenient_json.object_fields(fields.get("patternProperties"))
        schemas = [properties[name]] if name in properties else []
        schemas += [schema for pattern, schema in patterns.items() if self._found(pattern, name)]
        if not schemas:
            return fields.get("additionalProperties", True)
        return schemas[0] if len(schemas) == 1 else {"allOf": schemas}

    def _parts(self, fields: Fields) -> Iterator[Json]:
        yield from lenient_json.array_items(fields.get("allOf"))
        if "$ref" in fields:
            yield self.schemas.target(lenient_json.str_or_empty(fields["$ref"]) or "#")

    def _combined(self, value: Json, fields: Fields, depth: int) -> bool:
        if "anyOf" in fields:
            any_of = lenient_json.array_items(fields["anyOf"])
            if not any(self.fits(value, content, depth) for content in any_of):
                return False
        if "oneOf" in fields:
            one_of = lenient_json.array_items(fields["oneOf"])
            if sum(self.fits(value, content, depth) for content in one_of) != 1:
                return False
        if "not" in fields and self.fits(value, fields["not"], depth):
            return False
        if "if" in fields:
            then = "then" if self.fits(value, fields["if"], depth) else "else"
            return self.fits(value, fields.get(then, True), depth)
        return True

    def _is_plainly(self, value: Json, fields: Fields) -> bool:
        types = lenient_json.array_items(fields.get("type"))
        if types and not any(_is(value, lenient_json.str_or_empty(content)) for content in types):
            return False
        if "enum" in fields and not self._is_listed(
            value, lenient_json.array_items(fields["enum"])
        ):
            return False
        match value:
            case bool() | None:
                return True
            case int() | float():
                steps = numbers.numbers(fields.get("multipleOf"))
                self.budget.spend(len(steps))
                divided = all(numbers.divides(step, value) for step in steps)
                return divided and numbers.within(value, fields)
            case str():
                return _counts(len(value), fields, "Length") and self._is_formed(value, fields)
            case list():
                return _counts(len(value), fields, "Items") and self._is_set(value, fields)
            case dict():
                return _counts(len(value), fields, "Properties") and self._is_whole(value, fields)

    def _is_listed(self, value: Json, listed: list[Json]) -> bool:
        """Whether a list has the value; its keys are kept, for it is asked often."""
        if id(listed) not in self._listed:
            self._listed[id(listed)] = (
                listed,
                frozenset(key(content, self.budget) for content in listed),
            )
        return key(value, self.budget) in self._listed[id(listed)][1]

    def _is_formed(self, text: str, fields: Fields) -> bool:
        self.budget.spend(len(text) // 20)
        pattern, form = (
            lenient_json.str_or_empty(fields.get("pattern")),
            lenient_json.str_or_empty(fields.get("format")),
        )
        if self.by_format and not texts.is_of_format(text, form):
            return False
        return not pattern or self._found(pattern, text)

    def _found(self, pattern: str, text: str) -> bool:
        """Whether a text matches.  Raises `NoValue` for a pattern that is none here."""
        if pattern not in self._read:
            try:
                self._read[pattern] = parse_expression(pattern, self.budget)
            except ValueError as error:
                raise NoValue(str(error)) from None
        return found(self._read[pattern], text, self.budget)

    def _is_set(self, values: list[Json], fields: Fields) -> bool:
        """Whether no value comes twice, where none may."""
        if fields.get("uniqueItems") is not True:
            return True
        return len({key(value, self.budget) for value in values}) == len(values)

    def _is_whole(self, value: Fields, fields: Fields) -> bool:
        required = lenient_json.array_items(fields.get("required"))
        self.budget.spend(len(required) // 8)
        return all(content in value for content in required if isinstance(content, str))

    def _within(self, value: Json, fields: Fields) -> Iterator[tuple[Json, Json]]:
        match value:
            case dict():
                for name, content in value.items():
                    yield content, self.of_property(name, fields)
                    yield name, fields.get("propertyNames", True)
            case list():
                first = lenient_json.array_items(fields.get("prefixItems"))
                yield from zip(value, first, strict=False)
                yield from ((content, fields.get("items", True)) for content in value[len(first) :])
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


def _counts(count: int, fields: Fields, label: str) -> bool:
    least, most = (
        lenient_json.first_count(fields.get(f"min{label}")),
        lenient_json.first_count(fields.get(f"max{label}")),
    )
    return (least is None or count >= least) and (most is None or count <= most)
