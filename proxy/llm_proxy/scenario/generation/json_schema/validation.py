"""Validates values against a JSON Schema, for the keywords that `schemas` supports."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.scenario.generation.json_schema import numbers, texts
from llm_proxy.scenario.generation.json_schema.budget import SchemaBudget
from llm_proxy.scenario.generation.json_schema.merging import NoValueFound, equality_key
from llm_proxy.scenario.generation.json_schema.regex_engine import matches_anywhere
from llm_proxy.scenario.generation.json_schema.regex_parser import (
    AnchoredAlternative,
    parse_regex,
)
from llm_proxy.scenario.generation.json_schema.schemas import SchemaResolver, normalize_schema
from llm_proxy.turns import Json

_MAX_DEPTH: Final = 200
"""The most nested schemas, counting references."""


@dataclass(frozen=True, slots=True)
class SchemaValidator:
    """Validates against a root schema; caches enum keys and parsed patterns."""

    resolver: SchemaResolver
    budget: SchemaBudget
    checks_format: bool = True
    """Whether `format` is checked; a string with a short `maxLength` cannot satisfy it."""
    _enum_keys: dict[int, tuple[list[Json], frozenset[Hashable]]] = field(default_factory=dict)
    _parsed_patterns: dict[str, tuple[AnchoredAlternative, ...]] = field(default_factory=dict)

    def is_valid(self, value: Json, schema: Json, depth: int = 0) -> bool:
        """Whether the value is valid.

        Raises `NoValueFound` for an unsupported schema, `SchemaTooExpensive` for one that takes too
        much work.
        """
        self.budget.spend()
        if schema is True:
            return True
        if depth > _MAX_DEPTH:
            raise NoValueFound("its schemas are nested too deeply")
        self.budget.spend(2)
        fields = normalize_schema(schema, self.budget)
        next_depth = depth + 1
        return (
            self._matches_own_keywords(value, fields)
            and all(
                self.is_valid(value, subschema, next_depth)
                for subschema in self._always_applied_subschemas(fields)
            )
            and self._matches_combinators(value, fields, next_depth)
            and all(
                self.is_valid(content, schema, next_depth)
                for content, schema in self._children_with_schemas(value, fields)
            )
        )

    def property_schema(self, name: str, fields: Fields) -> Json:
        """The schema of a property with this name; False if it is not allowed."""
        properties = lenient_json.object_fields(fields.get("properties"))
        patterns = lenient_json.object_fields(fields.get("patternProperties"))
        schemas = [properties[name]] if name in properties else []
        schemas += [
            schema for pattern, schema in patterns.items() if self._matches_pattern(pattern, name)
        ]
        if not schemas:
            return fields.get("additionalProperties", True)
        return schemas[0] if len(schemas) == 1 else {"allOf": schemas}

    def _always_applied_subschemas(self, fields: Fields) -> Iterator[Json]:
        yield from lenient_json.array_items(fields.get("allOf"))
        if "$ref" in fields:
            yield self.resolver.resolve_ref(lenient_json.str_or_empty(fields["$ref"]) or "#")

    def _matches_combinators(self, value: Json, fields: Fields, depth: int) -> bool:
        if "anyOf" in fields:
            any_of = lenient_json.array_items(fields["anyOf"])
            if not any(self.is_valid(value, content, depth) for content in any_of):
                return False
        if "oneOf" in fields:
            one_of = lenient_json.array_items(fields["oneOf"])
            if sum(self.is_valid(value, content, depth) for content in one_of) != 1:
                return False
        if "not" in fields and self.is_valid(value, fields["not"], depth):
            return False
        if "if" in fields:
            branch = "then" if self.is_valid(value, fields["if"], depth) else "else"
            return self.is_valid(value, fields.get(branch, True), depth)
        return True

    def _matches_own_keywords(self, value: Json, fields: Fields) -> bool:
        types = lenient_json.array_items(fields.get("type"))
        if types and not any(
            _is_of_type(value, lenient_json.str_or_empty(content)) for content in types
        ):
            return False
        if "enum" in fields and not self._is_in_enum(
            value, lenient_json.array_items(fields["enum"])
        ):
            return False
        match value:
            case bool() | None:
                return True
            case int() | float():
                divisors = numbers.as_numbers(fields.get("multipleOf"))
                self.budget.spend(len(divisors))
                is_multiple = all(numbers.divides(divisor, value) for divisor in divisors)
                return is_multiple and numbers.is_within_bounds(value, fields)
            case str():
                return _is_count_allowed(
                    len(value), fields, "Length"
                ) and self._matches_text_keywords(value, fields)
            case list():
                return _is_count_allowed(len(value), fields, "Items") and self._has_unique_items(
                    value, fields
                )
            case dict():
                return _is_count_allowed(
                    len(value), fields, "Properties"
                ) and self._has_required_properties(value, fields)

    def _is_in_enum(self, value: Json, enum_values: list[Json]) -> bool:
        """Whether an enum contains the value; caches the enum's keys by its id."""
        if id(enum_values) not in self._enum_keys:
            self._enum_keys[id(enum_values)] = (
                enum_values,
                frozenset(equality_key(content, self.budget) for content in enum_values),
            )
        return equality_key(value, self.budget) in self._enum_keys[id(enum_values)][1]

    def _matches_text_keywords(self, text: str, fields: Fields) -> bool:
        self.budget.spend(len(text) // 20)
        pattern, format_name = (
            lenient_json.str_or_empty(fields.get("pattern")),
            lenient_json.str_or_empty(fields.get("format")),
        )
        if self.checks_format and not texts.matches_format(text, format_name):
            return False
        return not pattern or self._matches_pattern(pattern, text)

    def _matches_pattern(self, pattern: str, text: str) -> bool:
        """Whether a text contains a match.  Raises `NoValueFound` for an unsupported pattern."""
        if pattern not in self._parsed_patterns:
            try:
                self._parsed_patterns[pattern] = parse_regex(pattern, self.budget)
            except ValueError as error:
                raise NoValueFound(str(error)) from None
        return matches_anywhere(self._parsed_patterns[pattern], text, self.budget)

    def _has_unique_items(self, values: list[Json], fields: Fields) -> bool:
        """Whether all items differ, if `uniqueItems` is set."""
        if fields.get("uniqueItems") is not True:
            return True
        return len({equality_key(value, self.budget) for value in values}) == len(values)

    def _has_required_properties(self, value: Fields, fields: Fields) -> bool:
        required = lenient_json.array_items(fields.get("required"))
        self.budget.spend(len(required) // 8)
        return all(content in value for content in required if isinstance(content, str))

    def _children_with_schemas(self, value: Json, fields: Fields) -> Iterator[tuple[Json, Json]]:
        match value:
            case dict():
                for name, content in value.items():
                    yield content, self.property_schema(name, fields)
                    yield name, fields.get("propertyNames", True)
            case list():
                prefix_schemas = lenient_json.array_items(fields.get("prefixItems"))
                yield from zip(value, prefix_schemas, strict=False)
                yield from (
                    (content, fields.get("items", True)) for content in value[len(prefix_schemas) :]
                )
            case _:
                pass


def _is_of_type(value: Json, type_name: str) -> bool:
    match value:
        case None:
            return type_name == "null"
        case bool():
            return type_name == "boolean"
        case int():
            return type_name in {"integer", "number"}
        case float():
            return type_name == "number" or (type_name == "integer" and value.is_integer())
        case str():
            return type_name == "string"
        case list():
            return type_name == "array"
        case dict():
            return type_name == "object"


def _is_count_allowed(count: int, fields: Fields, keyword_suffix: str) -> bool:
    minimum, maximum = (
        lenient_json.first_integer(fields.get(f"min{keyword_suffix}")),
        lenient_json.first_integer(fields.get(f"max{keyword_suffix}")),
    )
    return (minimum is None or count >= minimum) and (maximum is None or count <= maximum)
