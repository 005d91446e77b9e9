"""Generates a value for a JSON Schema."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Final

from llm_proxy.chance import seeded_int_below
from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.errors import printable_excerpt
from llm_proxy.scenario.generation.json_schema import numbers, regex_engine, texts
from llm_proxy.scenario.generation.json_schema.budget import SchemaBudget, SchemaTooExpensive
from llm_proxy.scenario.generation.json_schema.merging import NoValueFound, equality_key
from llm_proxy.scenario.generation.json_schema.schemas import (
    COMPOSITION_KEYWORDS,
    FlatSchema,
    SchemaResolver,
    normalize_schema,
)
from llm_proxy.scenario.generation.json_schema.validation import SchemaValidator
from llm_proxy.turns import Json

_MAX_VALUES: Final = 20_000
"""The most values and alternatives per schema."""
_TOO_MANY_MESSAGE: Final = f"it asks for more than {_MAX_VALUES} values"
_MAX_VALUES_WITH_OPTIONAL: Final = 2_000
"""After so many values, optional properties and items are left out."""
_MAX_ALTERNATIVES: Final = 500
"""Further alternatives of a schema are ignored."""
_MAX_PATH_DEPTH: Final = 60
_DEFAULT_ITEM_COUNT: Final = 2
"""The number of items of an array without `prefixItems`, within its bounds."""
_MAX_TRIES: Final = 8
"""The most tries for a value that must also pass keywords it was not generated from."""
_MAX_UNIQUE_TRIES: Final = 60
"""The most tries for an item or a property name that differs from all others."""
_ROOT_REFS: Final = frozenset(("#",))
"""The reference to the whole schema."""
_VALIDATED_KEYWORDS: Final = frozenset((*COMPOSITION_KEYWORDS, "not", "patternProperties"))
"""Keywords that generation does not fully cover, so that values are validated."""
_KEYWORDS_BY_TYPE: Final = (
    ("object", ("properties", "required", "additionalProperties", "minProperties")),
    ("array", ("items", "prefixItems", "minItems", "maxItems")),
    ("string", ("pattern", "format", "minLength", "maxLength")),
    ("number", ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")),
)
"""The type that a schema without `type` implies by its keywords."""


class SchemaValueMaker:
    """Generates values for one root schema, within a budget."""

    def __init__(self, root: Json, seed: str, budget: SchemaBudget) -> None:
        self._budget = budget
        self._schemas = SchemaResolver(root, budget)
        self._validator = SchemaValidator(self._schemas, budget)
        self._seed = seed
        self._values_left = _MAX_VALUES

    def make_valid_value(self, schema: Json) -> Json:
        """A value for the schema, validated against it; as a last resort without its formats.

        Raises `NoValueFound` if there is none, `SchemaTooExpensive` if it takes too much work.
        """
        value = self.make_at_path(schema, "$")
        lenient_validator = SchemaValidator(self._schemas, self._budget, checks_format=False)
        if self._validator.is_valid(value, schema) or lenient_validator.is_valid(value, schema):
            return value
        raise NoValueFound("no value is known that keeps all its rules", "$")

    def make_at_path(
        self, schema: Json, path: str, visited_refs: frozenset[str] = _ROOT_REFS, attempt: int = 0
    ) -> Json:
        """A value for a subschema; `path` seeds it and is reported, `attempt` varies it.

        Raises `NoValueFound` if there is none, `SchemaTooExpensive` if it takes too much work.
        """
        first_error: NoValueFound | None = None
        try:
            needs_validation = not _VALIDATED_KEYWORDS.isdisjoint(
                normalize_schema(schema, self._budget)
            )
            for alternative in self._alternatives(schema, path, visited_refs):
                if isinstance(alternative, NoValueFound):
                    first_error = first_error or alternative
                    continue
                try:
                    for value in self._candidate_values(
                        alternative, path, attempt, tries=_MAX_TRIES if needs_validation else 1
                    ):
                        if not needs_validation or self._validator.is_valid(value, schema):
                            return value
                except NoValueFound as error:
                    first_error = first_error or error
        except NoValueFound as error:
            first_error = error
        first_error = first_error or NoValueFound("nothing is all that it asks for")
        raise NoValueFound(first_error.reason, first_error.path or path)

    def _alternatives(
        self, schema: Json, path: str, visited_refs: frozenset[str]
    ) -> list[FlatSchema | NoValueFound]:
        """The alternatives of a schema, null last."""
        if path.count(".") + path.count("[") > _MAX_PATH_DEPTH:
            raise NoValueFound("its schemas are nested too deeply")
        alternatives = list(
            islice(self._schemas.alternatives(schema, visited_refs), _MAX_ALTERNATIVES)
        )
        self._values_left -= len(alternatives)
        if self._values_left < 0:
            raise SchemaTooExpensive(_TOO_MANY_MESSAGE)
        return sorted(
            alternatives,
            key=lambda alternative: (
                isinstance(alternative, FlatSchema) and alternative.types == ("null",)
            ),
        )

    def _candidate_values(
        self, alternative: FlatSchema, path: str, attempt: int, tries: int
    ) -> Iterator[Json]:
        """Values for one alternative, the most likely first."""
        fields = alternative.keywords
        self._budget.spend(10)
        if "enum" in fields:
            enum_values = lenient_json.array_items(fields["enum"])
            other_fields = {name: value for name, value in fields.items() if name != "enum"}
            start = seeded_int_below(len(enum_values) or 1, self._seed, path) + attempt
            rotated = (
                enum_values[(start + index) % len(enum_values)] for index in range(len(enum_values))
            )
            yield from self._valid_values(
                (value for value in rotated if value is not None), other_fields
            )
            yield from self._valid_values(
                (value for value in enum_values if value is None), other_fields
            )
            return
        if attempt == 0:
            yield from self._valid_values(_suggested_values(fields), fields)
        for type_name in sorted(
            _candidate_types(alternative, path), key=lambda name: name == "null"
        ):
            for extra in range(tries):
                yield self._make_of_type(type_name, alternative, path, attempt + extra)

    def _valid_values(self, values: Iterator[Json], fields: Fields) -> Iterator[Json]:
        for value in values:
            self._budget.spend_for_value(value)
            if self._validator.is_valid(value, dict(fields)):
                yield value

    def _make_of_type(
        self, type_name: str, alternative: FlatSchema, path: str, attempt: int
    ) -> Json:
        """A value of one type.  Raises `NoValueFound` if there is none."""
        seed = f"{self._seed}\0{path}\0{attempt}"
        try:
            match type_name:
                case "object":
                    return self._make_object(alternative, path, attempt)
                case "array":
                    return self._make_array(alternative, path)
                case "string":
                    return texts.make_text(alternative.keywords, seed, self._budget)
                case "integer" | "number":
                    return numbers.make_number(
                        alternative.keywords, seed, self._budget, is_integer=type_name == "integer"
                    )
                case "boolean":
                    return (seeded_int_below(2, self._seed, path) + attempt) % 2 == 0
                case _:
                    return None
        except ValueError as error:
            raise NoValueFound(str(error), path) from None

    def _make_object(self, alternative: FlatSchema, path: str, attempt: int) -> Json:
        """An object; at attempt 1 and after many values, only with its required properties."""
        fields = alternative.keywords
        required_names = lenient_json.array_items(fields.get("required"))
        required = dict.fromkeys(value for value in required_names if isinstance(value, str))
        max_properties = _max_count(fields, "Properties", min_count=len(required))
        optional_left = max_properties - len(required)
        self._budget.spend(len(required_names))
        includes_optional = (
            attempt != 1 and self._values_left > _MAX_VALUES - _MAX_VALUES_WITH_OPTIONAL
        )
        properties: dict[str, Json] = {}
        for name in dict.fromkeys(
            (*lenient_json.object_fields(fields.get("properties")), *required)
        ):
            if name in required:
                properties[name] = self._make_property(name, alternative, path)
            elif includes_optional and optional_left > 0:
                try:
                    properties[name] = self._make_property(name, alternative, path)
                    optional_left -= 1
                except NoValueFound:  # an optional property is left out
                    continue
        return self._add_unnamed_properties(
            properties, alternative, path, includes_optional=includes_optional
        )

    def _make_property(self, name: str, alternative: FlatSchema, path: str) -> Json:
        property_path = (
            f"{path}.{name}"
            if name.isidentifier()
            else f"{path}[{lenient_json.compact_json(name)}]"
        )
        self._budget.spend(10 + len(property_path) // 20)
        if not self._validator.is_valid(name, alternative.keywords.get("propertyNames", True)):
            raise NoValueFound(
                "propertyNames does not allow its name", printable_excerpt(property_path, 500)
            )
        schema = self._validator.property_schema(name, alternative.keywords)
        return self.make_at_path(
            schema, printable_excerpt(property_path, 500), alternative.visited_refs
        )

    def _add_unnamed_properties(
        self,
        properties: dict[str, Json],
        alternative: FlatSchema,
        path: str,
        *,
        includes_optional: bool,
    ) -> Json:
        """Add properties that the schema does not name, up to `minProperties`; one to a map."""
        fields = alternative.keywords
        min_properties = lenient_json.first_integer(fields.get("minProperties")) or 0
        is_map = isinstance(fields.get("additionalProperties"), dict) and not properties
        target_count = max(min_properties, 1 if is_map and includes_optional else 0)
        if target_count > _MAX_VALUES:
            raise SchemaTooExpensive(_TOO_MANY_MESSAGE)
        for attempt in range(
            target_count * 2 + _MAX_UNIQUE_TRIES if target_count > len(properties) else 0
        ):
            if len(properties) >= target_count:
                break
            try:
                name = self._make_property_name(fields, path, alternative.visited_refs, attempt)
                if name not in properties:
                    properties[name] = self._make_property(name, alternative, path)
            except NoValueFound:
                if attempt >= _MAX_TRIES:
                    break
        if len(properties) < min_properties:
            raise NoValueFound(f"it needs {min_properties} properties, and has no names for them")
        return properties

    def _make_property_name(
        self, fields: Fields, path: str, visited_refs: frozenset[str], attempt: int
    ) -> str:
        seed = f"{self._seed}\0{path}\0{attempt}"
        name_patterns = list(lenient_json.object_fields(fields.get("patternProperties")))
        if "propertyNames" in fields:
            name_schema: Json = {"allOf": [fields["propertyNames"], {"type": "string"}]}
            return lenient_json.str_or_empty(
                self.make_at_path(name_schema, path, visited_refs, attempt)
            )
        if name_patterns and fields.get("additionalProperties") is False:
            return self._make_matching_name(
                name_patterns[attempt % len(name_patterns)], attempt, seed
            )
        return texts.make_word(seed) + (str(attempt) if attempt > _MAX_TRIES else "")

    def _make_array(self, alternative: FlatSchema, path: str) -> Json:
        fields = alternative.keywords
        prefix_schemas = lenient_json.array_items(fields.get("prefixItems"))
        items_schema: Json = fields.get("items", True)
        min_items = lenient_json.first_integer(fields.get("minItems")) or 0
        max_items = _max_count(fields, "Items")
        if min_items > _MAX_VALUES:
            raise SchemaTooExpensive(_TOO_MANY_MESSAGE)
        item_count = len(prefix_schemas) or (
            _DEFAULT_ITEM_COUNT
            if self._values_left > _MAX_VALUES - _MAX_VALUES_WITH_OPTIONAL
            else 0
        )
        item_count = max(min_items, min(item_count, max_items))
        items: list[Json] = []
        used_keys: set[Hashable] = set()
        for index in range(item_count):
            schema = prefix_schemas[index] if index < len(prefix_schemas) else items_schema
            try:
                items.append(self._make_item(used_keys, schema, f"{path}[{index}]", alternative))
            except NoValueFound:
                if len(items) < min_items:
                    raise
                break
        return items

    def _make_item(
        self, used_keys: set[Hashable], schema: Json, path: str, alternative: FlatSchema
    ) -> Json:
        """An item, a new one with `uniqueItems`.  Raises `NoValueFound` if there is none."""
        if alternative.keywords.get("uniqueItems") is not True:
            return self.make_at_path(schema, path, alternative.visited_refs)
        for attempt in range(_MAX_UNIQUE_TRIES):
            item = self.make_at_path(schema, path, alternative.visited_refs, attempt)
            item_key = equality_key(item, self._budget)
            if item_key not in used_keys:
                used_keys.add(item_key)
                return item
        raise NoValueFound("no item is known that is like no other", path)

    def _make_matching_name(self, pattern: str, attempt: int, seed: str) -> str:
        """A name that matches a pattern; longer at each attempt, if possible."""
        for length in (attempt, 0):
            with suppress(ValueError):
                return regex_engine.make_matching_text(pattern, length, None, seed, self._budget)
        raise NoValueFound(f"no name is known that matches {printable_excerpt(pattern, 100)}")


def _max_count(fields: Fields, keyword_suffix: str, min_count: int = 0) -> int:
    """The `maxItems` or `maxProperties`.  Raises `NoValueFound` if it is below the minimum."""
    min_count = max(min_count, lenient_json.first_integer(fields.get(f"min{keyword_suffix}")) or 0)
    max_count = lenient_json.first_integer(fields.get(f"max{keyword_suffix}"))
    if max_count is not None and max_count < min_count:
        raise NoValueFound(
            f"nothing has at least {min_count} and at most {max_count} {keyword_suffix.lower()}"
        )
    return _MAX_VALUES if max_count is None else max_count


def _candidate_types(alternative: FlatSchema, path: str) -> tuple[str, ...]:
    """The types to generate; without `type`, the one that the keywords imply."""
    if alternative.types:
        return alternative.types
    implied_types = (
        type_name
        for type_name, names in _KEYWORDS_BY_TYPE
        if not alternative.keywords.keys().isdisjoint(names)
    )
    return (next(implied_types, "object" if path == "$" else "string"),)


def _suggested_values(fields: Fields) -> Iterator[Json]:
    """The non-null values of `default`, `examples` and `example`."""
    for values in ([fields.get("default")], fields.get("examples"), [fields.get("example")]):
        yield from (value for value in lenient_json.array_items(values) if value is not None)
