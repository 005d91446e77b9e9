"""Normalises JSON Schemas in the forms that LLM APIs accept, and lists their alternatives.

Supported are draft 2020-12, the spellings of older drafts and of OpenAPI 3.0 (`nullable`, a list of
`items`, `exclusiveMinimum: true`), and Gemini's (types in upper case, counts as strings).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.errors import printable_excerpt
from llm_proxy.scenario.generation.json_schema.budget import SchemaBudget
from llm_proxy.scenario.generation.json_schema.merging import NoValueFound, merge_schemas
from llm_proxy.turns import Json

TYPES: Final = ("object", "array", "string", "number", "integer", "boolean", "null")
COMPOSITION_KEYWORDS: Final = ("$ref", "allOf", "anyOf", "oneOf", "if", "then", "else")
"""Keywords that compose other schemas; `alternatives` resolves them all."""
UNSUPPORTED_KEYWORDS: Final = (
    *("$dynamicRef", "$recursiveRef", "contains", "dependencies", "dependentRequired"),
    *("dependentSchemas", "unevaluatedItems", "unevaluatedProperties"),
)
"""Keywords that validation does not check, so they are rejected unless `false`."""

_COUNT_KEYWORDS: Final = (
    *("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"),
)
_VALUE_KEYWORDS: Final = ("const", "default", "enum", "example", "examples")
"""Keywords with values, which may be null."""
_UNSPECIFIED_TYPE: Final = "type_unspecified"
_ACCEPTED_TYPES: Final = (*TYPES, _UNSPECIFIED_TYPE)
_NUMBER_KEYWORDS: Final = (
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
)
_MAX_FLOAT_INT: Final = 10**308
"""Within the range of a float."""
_MAX_COUNT: Final = 10**12
"""Counts above it are reduced to it: nothing can have so many."""
_MAX_SHOWN_CHARS: Final = 40


@dataclass(frozen=True, slots=True)
class FlatSchema:
    """One alternative of a schema, with its composition keywords resolved."""

    keywords: Fields
    visited_refs: frozenset[str]
    """The references that led here; following one again would recurse without end."""

    @property
    def types(self) -> tuple[str, ...]:
        """The allowed types; empty if the schema has no `type`."""
        return tuple(
            lenient_json.str_or_empty(item)
            for item in lenient_json.array_items(self.keywords.get("type"))
        )


@dataclass(frozen=True, slots=True)
class SchemaResolver:
    """Resolves references and alternatives within a root schema."""

    root: Json
    budget: SchemaBudget = field(default_factory=SchemaBudget)

    def resolve_ref(self, ref: str) -> Json:
        """The subschema that a reference points to.  Raises `NoValueFound` outside the root."""
        self.budget.spend(2 + len(ref) // 2)
        value = self.root
        if ref != "#" and not ref.startswith("#/"):
            raise NoValueFound(
                f"{_truncate(ref)} refers to another schema: only its own parts are known"
            )
        for segment in ref.split("/")[1:]:
            name = unquote(segment).replace("~1", "/").replace("~0", "~")
            match value:
                case dict() if name in value:
                    value = value[name]
                case list() if name.isdecimal() and int(name[:9]) < len(value):
                    value = value[int(name)]
                case _:
                    raise NoValueFound(f"{_truncate(ref)} refers to nothing")
        return value

    def alternatives(
        self, schema: Json, visited_refs: frozenset[str]
    ) -> Iterator[FlatSchema | NoValueFound]:
        """All alternatives of a schema; a `NoValueFound` for each that has no value."""
        try:
            fields = normalize_schema(schema, self.budget)
            branches = list(self._branches(fields, visited_refs))
        except NoValueFound as error:
            yield error
            return
        own_fields = {
            name: value for name, value in fields.items() if name not in COMPOSITION_KEYWORDS
        }
        yield from self._merge_branches(
            FlatSchema(own_fields, visited_refs), branches, visited_refs
        )

    def _branches(self, fields: Fields, visited_refs: frozenset[str]) -> Iterator[_Branch]:
        if "$ref" in fields:
            ref = lenient_json.str_or_empty(fields["$ref"]) or "#"
            if ref in visited_refs:
                raise NoValueFound(f"{_truncate(ref)} holds itself without an end")
            yield _Branch((self.resolve_ref(ref),), frozenset((ref,)))
        for schema in lenient_json.array_items(fields.get("allOf")):
            yield _Branch((schema,))
        for name in ("anyOf", "oneOf"):
            if name in fields:
                yield _Branch(tuple(lenient_json.array_items(fields[name])))
        if "if" in fields:
            then: Json = {"allOf": [fields["if"], fields.get("then", True)]}
            yield _Branch((then, fields.get("else", True)))

    def _merge_branches(
        self, base: FlatSchema, branches: Sequence[_Branch], visited_refs: frozenset[str]
    ) -> Iterator[FlatSchema | NoValueFound]:
        if not branches:
            yield base
            return
        self.budget.spend(3 + len(branches) // 16 + len(visited_refs) // 4)
        branch, *others = branches
        for choice in branch.choices:
            for alternative in self.alternatives(choice, visited_refs | branch.refs):
                if isinstance(alternative, NoValueFound):
                    yield alternative
                    continue
                try:
                    fields = merge_schemas(base.keywords, alternative.keywords, self.budget)
                    merged_schema = FlatSchema(fields, base.visited_refs | alternative.visited_refs)
                except NoValueFound as error:
                    yield error
                    continue
                yield from self._merge_branches(merged_schema, others, visited_refs)


@dataclass(frozen=True, slots=True)
class _Branch:
    """Schemas of which one must apply, and the references followed to them."""

    choices: tuple[Json, ...]
    refs: frozenset[str] = frozenset()


def normalize_schema(schema: Json, budget: SchemaBudget) -> Fields:
    """A schema in the keywords of draft 2020-12; its subschemas unchanged.

    Raises `NoValueFound` for what is not a schema, and for unsupported keywords.
    """
    budget.spend(3)
    if isinstance(schema, bool):
        return {} if schema else {"enum": []}
    if not isinstance(schema, dict):
        raise NoValueFound(f"{_describe_value(schema)} is no schema")
    budget.spend(len(schema))
    fields = {
        name: value
        for name, value in schema.items()
        if value is not None or name in _VALUE_KEYWORDS
    }
    if unsupported := [
        keyword for keyword in UNSUPPORTED_KEYWORDS if fields.get(keyword, False) is not False
    ]:
        raise NoValueFound(f"what {unsupported[0]} asks for is not understood")
    if "type" in fields:
        fields["type"] = _normalize_types(fields, budget)
    fields = _normalize_numbers(fields)
    if isinstance(fields.get("items"), list):
        additional = {"items": fields["additionalItems"]} if "additionalItems" in fields else {}
        fields = {**fields, "prefixItems": fields.pop("items"), **additional}
    if "const" in fields:
        return merge_schemas(fields, {"enum": [fields.pop("const")]}, budget)
    return fields


def _normalize_numbers(fields: dict[str, Json]) -> dict[str, Json]:
    """Convert counts to numbers and boolean exclusive bounds to numeric ones."""
    counts = {name: fields[name] for name in _COUNT_KEYWORDS if name in fields}
    for name, count in counts.items():
        if isinstance(count, str) and count[:9].isdecimal():
            fields[name] = int(count[:9])
        elif isinstance(count, int | float) and count > _MAX_COUNT:
            fields[name] = _MAX_COUNT
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(fields.get(exclusive), bool) and fields.pop(exclusive) and bound in fields:
            fields[exclusive] = fields[bound]
    for bound in _NUMBER_KEYWORDS:
        value = fields.get(bound)
        if isinstance(value, int) and abs(value) > _MAX_FLOAT_INT:
            raise NoValueFound(f"a {bound} of that many digits is not understood")
    return fields


def _normalize_types(fields: Fields, budget: SchemaBudget) -> Json:
    value = fields["type"]
    listed = value if isinstance(value, list) else [value]
    budget.spend(len(listed) // 2)
    types = list(
        dict.fromkeys(
            lenient_json.str_or_empty(value)[:_MAX_SHOWN_CHARS].lower() for value in listed
        )
    )
    types = [name for name in types if name != _UNSPECIFIED_TYPE]
    if any(name not in TYPES for name in types):
        unknown = next(
            value
            for value in listed
            if lenient_json.str_or_empty(value)[:_MAX_SHOWN_CHARS].lower() not in _ACCEPTED_TYPES
        )
        raise NoValueFound(f"{_describe_value(unknown)} is no type: {', '.join(TYPES)} are")
    is_nullable = fields.get("nullable") is True and types and "null" not in types
    return [*types, *(["null"] if is_nullable else [])]


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
            return _truncate(lenient_json.compact_json(value))


def _truncate(text: str) -> str:
    return printable_excerpt(text, _MAX_SHOWN_CHARS)
