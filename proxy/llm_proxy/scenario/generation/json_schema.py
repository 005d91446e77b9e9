"""Reads JSON Schemas in the forms that LLM APIs accept: normalises, merges, and validates.

Supported are the keywords that structured output of OpenAI, Anthropic, Gemini or Ollama allows, in
the spelling of draft 2020-12, of older drafts and of OpenAPI 3.0 (`nullable`, a list of `items`,
`exclusiveMinimum: true`), and Gemini's (types in upper case, counts as strings); and further
`not`, `propertyNames` and `uniqueItems`, which tools often have.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Final
from urllib.parse import unquote

from llm_proxy.dialects.lenient_json import (
    Fields,
    array_items,
    compact_json,
    get_integer,
    get_items,
    get_object,
    get_string,
    is_same_json,
    object_fields,
    str_or_empty,
)
from llm_proxy.errors import printable_excerpt
from llm_proxy.scenario.generation import scalars
from llm_proxy.scenario.generation.scalars import (
    AnchoredAlternative,
    SchemaBudget,
    matches_anywhere,
    parse_regex,
)
from llm_proxy.turns import Json

TYPES: Final = ("object", "array", "string", "number", "integer", "boolean", "null")
COMPOSITION_KEYWORDS: Final = ("$ref", "allOf", "anyOf", "oneOf")
"""Keywords that compose other schemas; `alternatives` resolves them all."""
_UNSUPPORTED_KEYWORDS: Final = (
    *("$dynamicRef", "$recursiveRef", "contains", "dependencies", "dependentRequired"),
    *("dependentSchemas", "if", "patternProperties", "unevaluatedItems", "unevaluatedProperties"),
)
"""Keywords that are rejected unless `false`."""
_COUNT_KEYWORDS: Final = (
    *("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"),
)
_VALUE_KEYWORDS: Final = ("const", "default", "enum", "example", "examples")
"""Keywords with values, which may be null."""
_UNSPECIFIED_TYPE: Final = "type_unspecified"
_MAX_NUMBER: Final = 10**308
"""Within the range of a float."""
_MAX_COUNT: Final = 10**12
"""Counts above it are reduced to it: nothing can have so many."""
_MAX_SHOWN_CHARS: Final = 40
_MAX_DEPTH: Final = 200
"""The most nested schemas, counting references."""


class NoValueFound(Exception):
    """No value can be generated for a schema; `path` is empty if not known yet."""

    def __init__(self, reason: str, path: str = "") -> None:
        self.reason = reason
        self.path = path
        super().__init__(reason)


@dataclass(frozen=True, slots=True)
class FlatSchema:
    """One alternative of a schema, with its composition keywords resolved."""

    keywords: Fields
    visited_refs: frozenset[str]
    """The references that led here; following one again would recurse without end."""


@dataclass(frozen=True, slots=True)
class RootSchema:
    """Lists the alternatives of a root schema's parts, and validates values against them."""

    root: Json
    budget: SchemaBudget
    checks_format: bool = True
    """Whether `format` is checked; a string with a short `maxLength` cannot satisfy it."""
    _parsed_patterns: dict[str, tuple[AnchoredAlternative, ...]] = field(default_factory=dict)

    def resolve_ref(self, ref: str, visited_refs: frozenset[str] = frozenset()) -> Json:
        """The subschema that a reference points to.

        Raises `NoValueFound` outside the root, and for a reference that was followed before.
        """
        self.budget.spend(2 + len(ref) // 2)
        if ref in visited_refs:
            raise NoValueFound(f"{_truncate(ref)} refers to itself in an endless loop")
        value = self.root
        if ref != "#" and not ref.startswith("#/"):
            raise NoValueFound(
                f"{_truncate(ref)} refers to another document, which is not supported"
            )
        for segment in ref.split("/")[1:]:
            name = unquote(segment).replace("~1", "/").replace("~0", "~")
            match value:
                case dict() if name in value:
                    value = value[name]
                case list() if name.isdecimal() and int(name[:9]) < len(value):
                    value = value[int(name)]
                case _:
                    raise NoValueFound(f"{_truncate(ref)} does not exist")
        return value

    def alternatives(
        self, base: FlatSchema, others: Sequence[tuple[Json, frozenset[str]]]
    ) -> Iterator[FlatSchema | NoValueFound]:
        """All alternatives of a flat schema merged with others, each with its visited references.

        A `NoValueFound` for each alternative that has no value.
        """
        if not others:
            yield base
            return
        (schema, refs), *rest = others
        self.budget.spend(3 + len(rest) // 16 + len(refs) // 4)
        try:
            fields = normalize_schema(schema, self.budget)
            own_fields = {
                name: value for name, value in fields.items() if name not in COMPOSITION_KEYWORDS
            }
            parts = [(part, refs) for part in get_items(fields, "allOf")]
            if "$ref" in fields:
                ref = str_or_empty(fields["$ref"]) or "#"
                parts.insert(0, (self.resolve_ref(ref, refs), refs | {ref}))
            merged = merge_schemas(base.keywords, own_fields, self.budget)
        except NoValueFound as error:
            yield error
            return
        merged_base = FlatSchema(merged, base.visited_refs | refs)
        for any_of in array_items(fields.get("anyOf", [True])):
            for one_of in array_items(fields.get("oneOf", [True])):
                choices = [(choice, refs) for choice in (any_of, one_of) if choice is not True]
                yield from self.alternatives(merged_base, (*parts, *choices, *rest))

    def is_valid(self, value: Json, schema: Json, depth: int = 0) -> bool:
        """Whether the value is valid.

        Raises `NoValueFound` for an unsupported schema, `SchemaTooExpensive` for one that takes too
        much work.
        """
        self.budget.spend()
        if schema is True:
            return True
        if depth > _MAX_DEPTH:
            raise NoValueFound("the schema is nested too deeply")
        self.budget.spend(2)
        fields = normalize_schema(schema, self.budget)
        subschemas = get_items(fields, "allOf")
        if "$ref" in fields:
            ref = str_or_empty(fields["$ref"]) or "#"
            subschemas = [*subschemas, self.resolve_ref(ref)]

        def are_valid(schemas: Json) -> Iterator[bool]:
            for subschema in array_items(schemas):
                yield self.is_valid(value, subschema, depth + 1)

        return (
            self._matches_own_keywords(value, fields)
            and all(are_valid(subschemas))
            and ("anyOf" not in fields or any(are_valid(fields["anyOf"])))
            and ("oneOf" not in fields or sum(are_valid(fields["oneOf"])) == 1)
            and not any(are_valid([fields["not"]] if "not" in fields else []))
            and all(
                self.is_valid(content, subschema, depth + 1)
                for content, subschema in _children_with_schemas(value, fields)
            )
        )

    def _matches_own_keywords(self, value: Json, fields: Fields) -> bool:
        types = get_items(fields, "type")
        if types and not any(_is_of_type(value, name) for name in types):
            return False
        if "enum" in fields:
            enum_values = array_items(fields["enum"])
            if not contains_json(enum_values, value, self.budget):
                return False
        match value:
            case bool() | None:
                return True
            case int() | float():
                return scalars.is_valid_number(value, fields)
            case str():
                self.budget.spend(len(value) // 20)
                return _is_count_allowed(len(value), fields, "Length") and self._is_valid_text(
                    value, fields
                )
            case list():
                return _is_count_allowed(len(value), fields, "Items") and (
                    fields.get("uniqueItems") is not True
                    or not any(
                        contains_json(value[:index], item, self.budget)
                        for index, item in enumerate(value)
                    )
                )
            case dict():
                required = get_items(fields, "required")
                self.budget.spend(len(required) // 8)
                return _is_count_allowed(len(value), fields, "Properties") and all(
                    name in value for name in required if isinstance(name, str)
                )

    def _is_valid_text(self, text: str, fields: Fields) -> bool:
        format_name = get_string(fields, "format")
        if self.checks_format and not scalars.matches_format(text, format_name):
            return False
        pattern = get_string(fields, "pattern")
        if not pattern:
            return True
        if pattern not in self._parsed_patterns:
            try:
                self._parsed_patterns[pattern] = parse_regex(pattern, self.budget)
            except ValueError as error:
                raise NoValueFound(str(error)) from None
        return matches_anywhere(self._parsed_patterns[pattern], text, self.budget)


def property_schema(name: str, fields: Fields) -> Json:
    """The schema of a property with this name; False if it is not allowed."""
    properties = get_object(fields, "properties")
    return properties[name] if name in properties else fields.get("additionalProperties", True)


def contains_json(values: list[Json], value: Json, budget: SchemaBudget) -> bool:
    """Whether a list contains the value: 1 equals 1.0, but not true."""
    budget.spend(1 + len(values) // 25)
    return value in values and any(item == value and is_same_json(item, value) for item in values)


def _children_with_schemas(value: Json, fields: Fields) -> Iterator[tuple[Json, Json]]:
    match value:
        case dict():
            for name, content in value.items():
                yield content, property_schema(name, fields)
                yield name, fields.get("propertyNames", True)
        case list():
            prefix_schemas = get_items(fields, "prefixItems")
            yield from zip(value, prefix_schemas, strict=False)
            for content in value[len(prefix_schemas) :]:
                yield content, fields.get("items", True)
        case _:
            pass


def _is_of_type(value: Json, type_name: Json) -> bool:
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
    minimum = get_integer(fields, f"min{keyword_suffix}")
    maximum = get_integer(fields, f"max{keyword_suffix}")
    return (minimum is None or count >= minimum) and (maximum is None or count <= maximum)


def normalize_schema(schema: Json, budget: SchemaBudget) -> Fields:
    """A schema in the keywords of draft 2020-12; its subschemas unchanged.

    Raises `NoValueFound` for what is not a schema, and for unsupported keywords.
    """
    budget.spend(3)
    if isinstance(schema, bool):
        return {} if schema else {"enum": []}
    if not isinstance(schema, dict):
        raise NoValueFound(f"{_describe_value(schema)} is not a schema")
    budget.spend(len(schema))
    fields = {
        name: value
        for name, value in schema.items()
        if value is not None or name in _VALUE_KEYWORDS
    }
    for keyword in _UNSUPPORTED_KEYWORDS:
        if fields.get(keyword, False) is not False:
            raise NoValueFound(f"the keyword {keyword} is not supported")
    if "type" in fields:
        fields["type"] = _normalize_types(fields, budget)
    for name in _COUNT_KEYWORDS:
        count = fields.get(name)
        if isinstance(count, str) and count[:9].isdecimal():
            fields[name] = int(count[:9])
        elif isinstance(count, int | float) and count > _MAX_COUNT:
            fields[name] = _MAX_COUNT
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(fields.get(exclusive), bool) and fields.pop(exclusive) and bound in fields:
            fields[exclusive] = fields[bound]
    for bound in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"):
        value = fields.get(bound)
        if isinstance(value, int | float) and not abs(value) <= _MAX_NUMBER:  # NaN is no bound
            raise NoValueFound(f"the value of {bound} has too many digits")
    if isinstance(fields.get("items"), list):
        fields["prefixItems"] = fields.pop("items")
        if "additionalItems" in fields:
            fields["items"] = fields["additionalItems"]
    if "const" in fields:
        return merge_schemas(fields, {"enum": [fields.pop("const")]}, budget)
    return fields


def _normalize_types(fields: Fields, budget: SchemaBudget) -> Json:
    listed = fields["type"] if isinstance(fields["type"], list) else [fields["type"]]
    budget.spend(len(listed) // 2)
    types: dict[Json, None] = {}
    for value in listed:
        name = str_or_empty(value)[:_MAX_SHOWN_CHARS].lower()
        if name in TYPES:
            types[name] = None
        elif name != _UNSPECIFIED_TYPE:
            raise NoValueFound(f"unknown type {_describe_value(value)}; known: {', '.join(TYPES)}")
    if types and fields.get("nullable") is True:
        types["null"] = None
    return list(types)


def merge_schemas(first: Fields, second: Fields, budget: SchemaBudget) -> dict[str, Json]:
    """Merge two normalised schemas into one that requires what both require, as far as it can.

    Where it cannot, it requires less, so generated values are validated against both.  Raises
    `NoValueFound` if nothing could satisfy both.
    """
    budget.spend(1 + (len(first) + len(second)) // 4)
    merged = dict(first)
    for name, value in second.items():
        merged[name] = _merge_values(name, first[name], value, budget) if name in first else value
    return merged


def _merge_values(keyword: str, first: Json, second: Json, budget: SchemaBudget) -> Json:
    """The value of a keyword that two schemas have; the first of one that cannot be merged."""
    first_items, second_items = array_items(first), array_items(second)
    budget.spend((len(first_items) + len(second_items)) // 2)
    match keyword:
        case "type":
            return _common_types(first_items, second_items)
        case "enum":
            return [item for item in first_items if contains_json(second_items, item, budget)]
        case "required":
            names = (name for name in (*first_items, *second_items) if isinstance(name, str))
            return list(dict.fromkeys(names))
        case "properties":
            merged = dict(object_fields(first))
            budget.spend((len(merged) + len(object_fields(second))) // 4)
            for name, schema in object_fields(second).items():
                merged[name] = {"allOf": [merged[name], schema]} if name in merged else schema
            return merged
        case "prefixItems":
            pairs = zip_longest(first_items, second_items, fillvalue=True)
            return [{"allOf": list(pair)} for pair in pairs]
        case "items" | "additionalProperties" | "propertyNames":
            return {"allOf": [first, second]}
        case "pattern" | "format" | "multipleOf":
            if first != second:
                raise NoValueFound(f"the schema sets two different values for {keyword}")
            return first
        case _:
            pass
    if keyword.startswith(("min", "max", "exclusive")):
        if not isinstance(first, int | float) or not isinstance(second, int | float):
            return second
        return max(first, second) if "min" in keyword.lower() else min(first, second)
    return first


def _common_types(first: list[Json], second: list[Json]) -> Json:
    """The types that both allow; `integer` is also a `number`."""
    if not first or not second:
        return first or second
    firsts, seconds = (
        [*names, "integer"] if "number" in names else names for names in (first, second)
    )
    types = [name for name in first if name in seconds]
    types += [name for name in second if name in firsts and name not in first]
    if not types:
        raise NoValueFound(
            f"the types {compact_json(first)} and {compact_json(second)} contradict each other"
        )
    return types


def _describe_value(value: Json) -> str:
    """A short description of an invalid value for an error message."""
    match value:
        case list():
            return "a list"
        case dict():
            return "an object"
        case str():
            return _truncate(value)
        case _:
            return _truncate(compact_json(value))


def _truncate(text: str) -> str:
    return printable_excerpt(text, _MAX_SHOWN_CHARS)
