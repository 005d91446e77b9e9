"""JSON Schemas as LLM APIs take them, brought into one shape to be read by.

Read are draft 2020-12, what older drafts and OpenAPI 3.0 spell otherwise (`nullable`, a list of
`items`, `exclusiveMinimum: true`), and Gemini's way (types in upper case, counts as texts).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.errors import printable
from llm_proxy.scenario.generation.json_schema.budget import SchemaBudget
from llm_proxy.scenario.generation.json_schema.merging import NoValue, merged
from llm_proxy.turns import Json

TYPES: Final = ("object", "array", "string", "number", "integer", "boolean", "null")
COMBINED: Final = ("$ref", "allOf", "anyOf", "oneOf", "if", "then", "else")
"""What stands for other schemas; `alternatives` leaves none of it."""
NOT_UNDERSTOOD: Final = (
    *("$dynamicRef", "$recursiveRef", "contains", "dependencies", "dependentRequired"),
    *("dependentSchemas", "unevaluatedItems", "unevaluatedProperties"),
)
"""What a value could break without our noticing; that it is false, nothing of ours breaks."""

_COUNTS: Final = (
    *("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"),
)
_VALUES: Final = ("const", "default", "enum", "example", "examples")
"""What holds values, where null is one of them."""
_UNSAID: Final = "type_unspecified"
_SPELLED: Final = (*TYPES, _UNSAID)
_BOUNDS: Final = (*("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),)
_LARGEST: Final = 10**308
"""What a float can still be."""
_BEYOND: Final = 10**12
"""More than anything could have."""
_LONGEST: Final = 40


@dataclass(frozen=True, slots=True)
class Flat:
    """One way to be valid: a schema without others that it stands for."""

    fields: Fields
    above: frozenset[str]
    """The references that led here: they lead nowhere new."""

    @property
    def types(self) -> tuple[str, ...]:
        """The types that it allows; none where it does not say."""
        return tuple(
            lenient_json.str_or_empty(array_item)
            for array_item in lenient_json.array_items(self.fields.get("type"))
        )


@dataclass(frozen=True, slots=True)
class Schemas:
    """A whole schema, which its parts refer to."""

    root: Json
    budget: SchemaBudget = field(default_factory=SchemaBudget)

    def target(self, ref: str) -> Json:
        """What a reference into this schema refers to.  Raises `NoValue` for any other."""
        self.budget.spend(2 + len(ref) // 2)
        value = self.root
        if ref != "#" and not ref.startswith("#/"):
            raise NoValue(f"{_shown(ref)} refers to another schema: only its own parts are known")
        for step in ref.split("/")[1:]:
            name = unquote(step).replace("~1", "/").replace("~0", "~")
            match value:
                case dict() if name in value:
                    value = value[name]
                case list() if name.isdecimal() and int(name[:9]) < len(value):
                    value = value[int(name)]
                case _:
                    raise NoValue(f"{_shown(ref)} refers to nothing")
        return value

    def alternatives(self, schema: Json, above: frozenset[str]) -> Iterator[Flat | NoValue]:
        """Every way to be valid, or why one is none; `above` are the references passed so far."""
        try:
            fields = plain(schema, self.budget)
            branches = list(self._branches(fields, above))
        except NoValue as error:
            yield error
            return
        rest = {name: value for name, value in fields.items() if name not in COMBINED}
        yield from self._merged(Flat(rest, above), branches, above)

    def _branches(self, fields: Fields, above: frozenset[str]) -> Iterator[_Branch]:
        if "$ref" in fields:
            ref = lenient_json.str_or_empty(fields["$ref"]) or "#"
            if ref in above:
                raise NoValue(f"{_shown(ref)} holds itself without an end")
            yield _Branch((self.target(ref),), frozenset((ref,)))
        for schema in lenient_json.array_items(fields.get("allOf")):
            yield _Branch((schema,))
        for name in ("anyOf", "oneOf"):
            if name in fields:
                yield _Branch(tuple(lenient_json.array_items(fields[name])))
        if "if" in fields:
            then: Json = {"allOf": [fields["if"], fields.get("then", True)]}
            yield _Branch((then, fields.get("else", True)))

    def _merged(
        self, base: Flat, branches: Sequence[_Branch], above: frozenset[str]
    ) -> Iterator[Flat | NoValue]:
        if not branches:
            yield base
            return
        self.budget.spend(3 + len(branches) // 16 + len(above) // 4)
        branch, *others = branches
        for choice in branch.choices:
            for found in self.alternatives(choice, above | branch.refs):
                if isinstance(found, NoValue):
                    yield found
                    continue
                try:
                    fields = merged(base.fields, found.fields, self.budget)
                    both = Flat(fields, base.above | found.above)
                except NoValue as error:
                    yield error
                    continue
                yield from self._merged(both, others, above)


@dataclass(frozen=True, slots=True)
class _Branch:
    """Schemas of which one must be taken."""

    choices: tuple[Json, ...]
    refs: frozenset[str] = frozenset()


def plain(schema: Json, budget: SchemaBudget) -> Fields:
    """A schema in the words of draft 2020-12; its parts as they stand.

    Raises `NoValue` for what is no schema, or has rules that are not understood.
    """
    budget.spend(3)
    if isinstance(schema, bool):
        return {} if schema else {"enum": []}
    if not isinstance(schema, dict):
        raise NoValue(f"{_described(schema)} is no schema")
    budget.spend(len(schema))
    fields = {name: value for name, value in schema.items() if value is not None or name in _VALUES}
    if odd := [text for text in NOT_UNDERSTOOD if fields.get(text, False) is not False]:
        raise NoValue(f"what {odd[0]} asks for is not understood")
    if "type" in fields:
        fields["type"] = _types(fields, budget)
    fields = _numbered(fields)
    if isinstance(fields.get("items"), list):
        rest = {"items": fields["additionalItems"]} if "additionalItems" in fields else {}
        fields = {**fields, "prefixItems": fields.pop("items"), **rest}
    if "const" in fields:
        return merged(fields, {"enum": [fields.pop("const")]}, budget)
    return fields


def _numbered(fields: dict[str, Json]) -> dict[str, Json]:
    """Counts as numbers, and bounds that say themselves that they are outside."""
    counts = {name: fields[name] for name in _COUNTS if name in fields}
    for name, count in counts.items():
        if isinstance(count, str) and count[:9].isdecimal():
            fields[name] = int(count[:9])
        elif isinstance(count, int | float) and count > _BEYOND:
            fields[name] = _BEYOND
    for bound, outside in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(fields.get(outside), bool) and fields.pop(outside) and bound in fields:
            fields[outside] = fields[bound]
    for bound in _BOUNDS:
        steps = fields.get(bound)
        if isinstance(steps, int) and abs(steps) > _LARGEST:
            raise NoValue(f"a {bound} of that many digits is not understood")
    return fields


def _types(fields: Fields, budget: SchemaBudget) -> Json:
    value = fields["type"]
    named = value if isinstance(value, list) else [value]
    budget.spend(len(named) // 2)
    types = list(
        dict.fromkeys(lenient_json.str_or_empty(value)[:_LONGEST].lower() for value in named)
    )
    types = [text for text in types if text != _UNSAID]
    if any(text not in TYPES for text in types):
        odd = next(
            value
            for value in named
            if lenient_json.str_or_empty(value)[:_LONGEST].lower() not in _SPELLED
        )
        raise NoValue(f"{_described(odd)} is no type: {', '.join(TYPES)} are")
    is_nullable = fields.get("nullable") is True and types and "null" not in types
    return [*types, *(["null"] if is_nullable else [])]


def _described(value: Json) -> str:
    """What stands where something else should; never all of it."""
    match value:
        case list():
            return "a list"
        case dict():
            return "an object"
        case str():
            return _shown(value)
        case _:
            return _shown(lenient_json.compact_json(value))


def _shown(text: str) -> str:
    return printable(text, _LONGEST)
