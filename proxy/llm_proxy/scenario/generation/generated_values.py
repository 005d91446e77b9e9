"""Generates values for JSON Schemas: tool arguments and structured output.

The same schema and seed give the same value.  An example or a default of the schema is preferred.
Required properties are always included, optional ones unless they recurse without end or cannot be
generated.  Of several alternatives the first that works is used; null is the last.
Schemas come with requests, so the work for each is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Final

from llm_proxy.chance import seeded_int_below
from llm_proxy.dialects.lenient_json import (
    Fields,
    array_items,
    compact_json,
    get_integer,
    get_items,
    get_object,
    object_fields,
    str_or_empty,
)
from llm_proxy.errors import SchemaNotSatisfiable, printable_excerpt
from llm_proxy.scenario.generation import scalars
from llm_proxy.scenario.generation.json_schema import (
    COMPOSITION_KEYWORDS,
    FlatSchema,
    NoValueFound,
    RootSchema,
    contains_json,
    property_schema,
)
from llm_proxy.scenario.generation.scalars import MAX_STEPS, SchemaBudget, SchemaTooExpensive
from llm_proxy.turns import Json

_MAX_VALUES: Final = 20_000
"""The most values and alternatives per schema."""
_TOO_MANY_MESSAGE: Final = f"the schema requires more than {_MAX_VALUES} values"
_MAX_VALUES_WITH_OPTIONAL: Final = 2_000
"""After so many values, optional properties and items are left out."""
_MAX_ALTERNATIVES: Final = 500
"""Further alternatives of a schema are ignored."""
_MAX_PATH_DEPTH: Final = 60
_MAX_PATH_CHARS: Final = 500
_DEFAULT_ITEM_COUNT: Final = 2
"""The number of items of an array without `prefixItems`, within its bounds."""
_MAX_TRIES: Final = 8
"""The most tries for a value that must also pass keywords it was not generated from."""
_MAX_UNIQUE_TRIES: Final = 60
"""The most tries for an item or a property name that differs from all others."""
_ROOT_REFS: Final = frozenset(("#",))
"""The reference to the whole schema."""
_VALIDATED_KEYWORDS: Final = frozenset((*COMPOSITION_KEYWORDS, "not"))
"""Keywords that generation does not fully cover, so that values are validated."""
_KEYWORDS_BY_TYPE: Final = {
    "object": ("properties", "required", "additionalProperties", "minProperties"),
    "array": ("items", "prefixItems", "minItems", "maxItems"),
    "string": ("pattern", "format", "minLength", "maxLength"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}
"""The type that a schema without `type` implies by its keywords."""


def make_value(schema: Json, seed: str, fixed_fields: Mapping[str, Json] | None = None) -> Json:
    """A value that is valid against the schema; an object if the schema sets no type.

    `fixed_fields` are properties used as they are; if possible the value is valid together with
    them.  Raises `SchemaNotSatisfiable` with the path if there is no such value or if the schema
    uses unsupported keywords.
    """
    schema = {} if schema is None else schema
    try:
        if not fixed_fields:
            return _make_valid_value(schema, schema, seed, MAX_STEPS)
        # A value that is valid with the fixed members; failing that, one that is valid alone.
        consts: dict[str, Json] = {name: {"const": value} for name, value in fixed_fields.items()}
        schema_with_fixed: Json = {
            "allOf": [schema, {"properties": consts, "required": list(fixed_fields)}]
        }
        try:
            value = _make_valid_value(schema_with_fixed, schema, seed, MAX_STEPS // 2)
        except (NoValueFound, SchemaTooExpensive):
            value = _make_valid_value(schema, schema, seed, MAX_STEPS // 2)
    except NoValueFound as error:
        path, reason = error.path or "$", error.reason
    except SchemaTooExpensive as error:
        path, reason = "$", str(error)
    except RecursionError:
        path, reason = "$", "the schema is nested too deeply"
    else:
        if isinstance(value, dict):
            return value | dict(fixed_fields)
        names = printable_excerpt(", ".join(fixed_fields), 100)
        raise SchemaNotSatisfiable(
            f"the schema does not describe an object, so {names} cannot be set"
        )
    raise SchemaNotSatisfiable(
        f"cannot generate a value at {path}: {reason}; set the value in the scenario, or add an "
        "example to the schema"
    )


def _make_valid_value(schema: Json, root: Json, seed: str, steps: int) -> Json:
    """A value for the schema, validated against it; as a last resort without its formats."""
    root_schema = RootSchema(root, SchemaBudget(steps))
    value = _ValueMaker(root_schema, seed).make_at_path(schema, "$")
    for checks_format in (True, False):
        if replace(root_schema, checks_format=checks_format).is_valid(value, schema):
            return value
    raise NoValueFound("no generated value satisfies the whole schema")


class _ValueMaker:
    """Generates values for one root schema, within its budget."""

    def __init__(self, root_schema: RootSchema, seed: str) -> None:
        self._root_schema = root_schema
        self._budget = root_schema.budget
        self._seed = seed
        self._values_left = _MAX_VALUES

    def make_at_path(
        self, schema: Json, path: str, visited_refs: frozenset[str] = _ROOT_REFS, attempt: int = 0
    ) -> Json:
        """A value for a subschema; `path` seeds it and is reported, `attempt` varies it.

        Raises `NoValueFound` if there is none, `SchemaTooExpensive` if it takes too much work.
        """
        if path.count(".") + path.count("[") > _MAX_PATH_DEPTH:
            raise NoValueFound("the schema is nested too deeply", path)
        needs_validation = not _VALIDATED_KEYWORDS.isdisjoint(object_fields(schema))
        tries = _MAX_TRIES if needs_validation else 1
        errors: list[NoValueFound] = []
        for alternative in self._alternatives(schema, visited_refs):
            if isinstance(alternative, NoValueFound):
                errors.append(alternative)
                continue
            try:
                for value in self._candidate_values(alternative, path, attempt, tries):
                    if not needs_validation or self._root_schema.is_valid(value, schema):
                        return value
            except NoValueFound as error:
                errors.append(error)
        errors.append(NoValueFound("no generated value satisfies the schema"))
        raise NoValueFound(errors[0].reason, errors[0].path or path)

    def _alternatives(
        self, schema: Json, visited_refs: frozenset[str]
    ) -> list[FlatSchema | NoValueFound]:
        """The alternatives of a schema, null last."""
        found = self._root_schema.alternatives(
            FlatSchema({}, visited_refs), ((schema, visited_refs),)
        )
        alternatives = list(islice(found, _MAX_ALTERNATIVES))
        self._values_left -= len(alternatives)
        if self._values_left < 0:
            raise SchemaTooExpensive(_TOO_MANY_MESSAGE)
        return sorted(
            alternatives,
            key=lambda alternative: (
                isinstance(alternative, FlatSchema) and alternative.keywords.get("type") == ["null"]
            ),
        )

    def _candidate_values(
        self, alternative: FlatSchema, path: str, attempt: int, tries: int
    ) -> Iterator[Json]:
        """Values for one alternative of a schema, the most likely first.

        Raises `NoValueFound` if there is none of a type.
        """
        fields = dict(alternative.keywords)
        self._budget.spend(10)
        is_enum = "enum" in fields
        suggestions: list[Json] = []
        if is_enum:
            enum_values = array_items(fields.pop("enum"))
            count = len(enum_values) or 1
            start = (seeded_int_below(count, self._seed, path) + attempt) % count
            suggestions = [*enum_values[start:], *enum_values[:start]]
            suggestions.sort(key=lambda value: value is None)
        elif attempt == 0:
            examples = get_items(fields, "examples")
            suggestions = [fields.get("default"), *examples, fields.get("example")]
            suggestions = [value for value in suggestions if value is not None]
        for value in suggestions:
            self._budget.spend_for_value(value)
            if self._root_schema.is_valid(value, fields):
                yield value
        if is_enum:
            return
        types = get_items(fields, "type") or [_implied_type(fields, path)]
        for type_name in sorted(types, key=lambda name: name == "null"):
            for extra in range(tries):
                yield self._make_of_type(type_name, alternative, path, attempt + extra)

    def _make_of_type(
        self, type_name: Json, alternative: FlatSchema, path: str, attempt: int
    ) -> Json:
        fields, seed = alternative.keywords, f"{self._seed}\0{path}\0{attempt}"
        try:
            match type_name:
                case "object":
                    return self._make_object(alternative, path, attempt)
                case "array":
                    return self._make_array(alternative, path)
                case "string":
                    return scalars.make_text(fields, seed, self._budget)
                case "integer" | "number":
                    return scalars.make_number(
                        fields, seed, self._budget, is_integer=type_name == "integer"
                    )
                case "boolean":
                    return (seeded_int_below(2, self._seed, path) + attempt) % 2 == 0
                case _:
                    return None
        except ValueError as error:
            raise NoValueFound(str(error), path) from None

    @property
    def _makes_optional(self) -> bool:
        """Whether few enough values have been made for optional ones to be made too."""
        return self._values_left > _MAX_VALUES - _MAX_VALUES_WITH_OPTIONAL

    def _make_object(self, alternative: FlatSchema, path: str, attempt: int) -> Json:
        """An object; at attempt 1 and after many values, only with its required properties."""
        fields = alternative.keywords
        required_names = get_items(fields, "required")
        self._budget.spend(len(required_names))
        required = dict.fromkeys(name for name in required_names if isinstance(name, str))
        min_properties, max_properties = _count_bounds(fields, "Properties", len(required))
        makes_optional = attempt != 1 and self._makes_optional
        optional_left = max_properties - len(required) if makes_optional else 0
        properties: dict[str, Json] = {}
        for name in dict.fromkeys((*get_object(fields, "properties"), *required)):
            if name in required:
                properties[name] = self._make_property(name, alternative, path)
            elif optional_left > 0:
                try:
                    properties[name] = self._make_property(name, alternative, path)
                    optional_left -= 1
                except NoValueFound:  # an optional property is left out
                    continue
        is_map = isinstance(fields.get("additionalProperties"), dict) and not properties
        target_count = max(min_properties, 1 if is_map and makes_optional else 0)
        for name_attempt in range(target_count * 2 + _MAX_UNIQUE_TRIES):
            if len(properties) >= target_count:
                break
            try:
                name = self._make_name(alternative, path, name_attempt)
                if name not in properties:
                    properties[name] = self._make_property(name, alternative, path)
            except NoValueFound:
                if name_attempt >= _MAX_TRIES:
                    break
        if len(properties) < min_properties:
            raise NoValueFound(
                f"the schema requires {min_properties} properties; "
                "not enough names can be generated"
            )
        return properties

    def _make_property(self, name: str, alternative: FlatSchema, path: str) -> Json:
        property_path = printable_excerpt(
            f"{path}.{name}" if name.isidentifier() else f"{path}[{compact_json(name)}]",
            _MAX_PATH_CHARS,
        )
        self._budget.spend(10 + len(property_path) // 20)
        fields = alternative.keywords
        if not self._root_schema.is_valid(name, fields.get("propertyNames", True)):
            raise NoValueFound("propertyNames does not allow this property name", property_path)
        return self.make_at_path(
            property_schema(name, fields), property_path, alternative.visited_refs
        )

    def _make_name(self, alternative: FlatSchema, path: str, attempt: int) -> str:
        """A name for a property that the schema does not name."""
        if "propertyNames" in alternative.keywords:
            name_schema: Json = {
                "allOf": [alternative.keywords["propertyNames"], {"type": "string"}]
            }
            name = self.make_at_path(name_schema, path, alternative.visited_refs, attempt)
            return str_or_empty(name)
        word = scalars.make_word(f"{self._seed}\0{path}\0{attempt}")
        return word + (str(attempt) if attempt > _MAX_TRIES else "")

    def _make_array(self, alternative: FlatSchema, path: str) -> Json:
        fields = alternative.keywords
        prefix_schemas = get_items(fields, "prefixItems")
        min_items, max_items = _count_bounds(fields, "Items")
        item_count = len(prefix_schemas) or (_DEFAULT_ITEM_COUNT if self._makes_optional else 0)
        items: list[Json] = []
        for index in range(max(min_items, min(item_count, max_items))):
            schema = (
                prefix_schemas[index] if index < len(prefix_schemas) else fields.get("items", True)
            )
            try:
                items.append(self._make_item(items, schema, f"{path}[{index}]", alternative))
            except NoValueFound:
                if len(items) < min_items:
                    raise
                break
        return items

    def _make_item(
        self, items: list[Json], schema: Json, path: str, alternative: FlatSchema
    ) -> Json:
        """A further item, a new one with `uniqueItems`."""
        is_unique = alternative.keywords.get("uniqueItems") is True
        for attempt in range(_MAX_UNIQUE_TRIES):
            item = self.make_at_path(schema, path, alternative.visited_refs, attempt)
            if not is_unique or not contains_json(items, item, self._budget):
                return item
        raise NoValueFound("too few distinct items can be generated (uniqueItems)", path)


def _count_bounds(fields: Fields, keyword_suffix: str, required_count: int = 0) -> tuple[int, int]:
    """The fewest and the most items or properties.

    Raises `NoValueFound` if there is no such number, `SchemaTooExpensive` if it is too large.
    """
    min_count = get_integer(fields, f"min{keyword_suffix}") or 0
    max_count = get_integer(fields, f"max{keyword_suffix}")
    least = max(min_count, required_count)
    if max_count is not None and max_count < least:
        raise NoValueFound(
            f"the schema requires at least {least} but at most {max_count} {keyword_suffix.lower()}"
        )
    if min_count > _MAX_VALUES:
        raise SchemaTooExpensive(_TOO_MANY_MESSAGE)
    return min_count, _MAX_VALUES if max_count is None else max_count


def _implied_type(fields: Fields, path: str) -> str:
    """The type that the keywords of a schema without `type` imply."""
    for type_name, keywords in _KEYWORDS_BY_TYPE.items():
        if not fields.keys().isdisjoint(keywords):
            return type_name
    return "object" if path == "$" else "string"
