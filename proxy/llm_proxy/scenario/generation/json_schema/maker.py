"""A value on its way out of a JSON Schema."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Final

from llm_proxy.chance import seeded_below
from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.errors import printable
from llm_proxy.scenario.generation.json_schema import numbers, regex_engine, texts
from llm_proxy.scenario.generation.json_schema.budget import SchemaBudget, SchemaTooExpensive
from llm_proxy.scenario.generation.json_schema.merging import NoValue, key
from llm_proxy.scenario.generation.json_schema.schemas import COMBINED, Flat, Schemas, plain
from llm_proxy.scenario.generation.json_schema.validation import Fitness
from llm_proxy.turns import Json

_MOST: Final = 20_000
"""Values and ways to be valid that one schema may ask for."""
_MANY: Final = f"it asks for more than {_MOST} values"
_PLENTY: Final = 2_000
"""From here on, only what must be there is made."""
_WAYS: Final = 500
"""Ways to be valid that are looked at."""
_DEEPEST: Final = 60
_ITEMS: Final = 2
"""Of an array that may have any number."""
_TRIES: Final = 8
"""For a value that is held against rules which it was not made by."""
_OTHERS: Final = 60
"""Tries for an item that no other is like."""
_ROOT: Final = frozenset(("#",))
"""The reference that leads to the whole schema."""
_HELD: Final = frozenset((*COMBINED, "not", "patternProperties"))
"""Rules that a value is not made by alone, but held against."""
_KEYWORDS: Final = (
    ("object", ("properties", "required", "additionalProperties", "minProperties")),
    ("array", ("items", "prefixItems", "minItems", "maxItems")),
    ("string", ("pattern", "format", "minLength", "maxLength")),
    ("number", ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")),
)
"""What a schema without a type is meant for."""


class SchemaValueMaker:
    """One schema on its way into a value, and how much it may still ask for."""

    def __init__(self, root: Json, seed: str, budget: SchemaBudget) -> None:
        self._budget = budget
        self._schemas = Schemas(root, budget)
        self._fitness = Fitness(self._schemas, budget)
        self._seed = seed
        self._left = _MOST

    def made(self, schema: Json) -> Json:
        """A value for the whole schema, held against it.

        Raises `NoValue` where there is none, `TooMuch` where it is not worth going on.
        """
        made = self.make(schema, "$")
        without_formats = Fitness(self._schemas, self._budget, by_format=False)
        if self._fitness.fits(made, schema) or without_formats.fits(made, schema):
            return made
        raise NoValue("no value is known that keeps all its rules", "$")

    def make(
        self, schema: Json, path: str, above: frozenset[str] = _ROOT, attempt: int = 0
    ) -> Json:
        """A value for a schema at a path; another one at another attempt.

        Raises `NoValue` where there is none, `TooMuch` where it is not worth going on.
        """
        why: NoValue | None = None
        try:
            is_held = not _HELD.isdisjoint(plain(schema, self._budget))
            for way in self._ways(schema, path, above):
                if isinstance(way, NoValue):
                    why = why or way
                    continue
                try:
                    for made in self._made(way, path, attempt, tries=_TRIES if is_held else 1):
                        if not is_held or self._fitness.fits(made, schema):
                            return made
                except NoValue as error:
                    why = why or error
        except NoValue as error:
            why = error
        why = why or NoValue("nothing is all that it asks for")
        raise NoValue(why.why, why.path or path)

    def _ways(self, schema: Json, path: str, above: frozenset[str]) -> list[Flat | NoValue]:
        """The ways to be valid, null the last of them."""
        if path.count(".") + path.count("[") > _DEEPEST:
            raise NoValue("its schemas are nested too deeply")
        ways = list(islice(self._schemas.alternatives(schema, above), _WAYS))
        self._left -= len(ways)
        if self._left < 0:
            raise SchemaTooExpensive(_MANY)
        return sorted(ways, key=lambda flat: isinstance(flat, Flat) and flat.types == ("null",))

    def _made(self, way: Flat, path: str, attempt: int, tries: int) -> Iterator[Json]:
        """Values for one way to be valid, the likeliest first."""
        fields = way.fields
        self._budget.spend(10)
        if "enum" in fields:
            listed = lenient_json.array_items(fields["enum"])
            others = {name: value for name, value in fields.items() if name != "enum"}
            start = seeded_below(len(listed) or 1, self._seed, path) + attempt
            turned = (listed[(start + at) % len(listed)] for at in range(len(listed)))
            yield from self._fitting((value for value in turned if value is not None), others)
            yield from self._fitting((value for value in listed if value is None), others)
            return
        if attempt == 0:
            yield from self._fitting(_suggested(fields), fields)
        for kind in sorted(_types(way, path), key=lambda it: it == "null"):
            for more in range(tries):
                yield self._typed(kind, way, path, attempt + more)

    def _fitting(self, values: Iterator[Json], fields: Fields) -> Iterator[Json]:
        for value in values:
            self._budget.weigh(value)
            if self._fitness.fits(value, dict(fields)):
                yield value

    def _typed(self, kind: str, way: Flat, path: str, attempt: int) -> Json:
        """A value of a type.  Raises `NoValue` where there is none."""
        seed = f"{self._seed}\0{path}\0{attempt}"
        try:
            match kind:
                case "object":
                    return self._object(way, path, attempt)
                case "array":
                    return self._array(way, path)
                case "string":
                    return texts.text(way.fields, seed, self._budget)
                case "integer" | "number":
                    return numbers.number(way.fields, seed, self._budget, whole=kind == "integer")
                case "boolean":
                    return (seeded_below(2, self._seed, path) + attempt) % 2 == 0
                case _:
                    return None
        except ValueError as error:
            raise NoValue(str(error), path) from None

    def _object(self, way: Flat, path: str, attempt: int) -> Json:
        """An object; with nothing but what must be in it at the second attempt, or a late one."""
        fields = way.fields
        named = lenient_json.array_items(fields.get("required"))
        required = dict.fromkeys(value for value in named if isinstance(value, str))
        most = _room(fields, "Properties", least=len(required))
        room = most - len(required)
        self._budget.spend(len(named))
        is_generous = attempt != 1 and self._left > _MOST - _PLENTY
        made: dict[str, Json] = {}
        for name in dict.fromkeys(
            (*lenient_json.object_fields(fields.get("properties")), *required)
        ):
            if name in required:
                made[name] = self._property(name, way, path)
            elif is_generous and room > 0:
                try:
                    made[name] = self._property(name, way, path)
                    room -= 1
                except NoValue:  # it goes without
                    continue
        return self._with_more(made, way, path, is_generous=is_generous)

    def _property(self, name: str, way: Flat, path: str) -> Json:
        place = (
            f"{path}.{name}"
            if name.isidentifier()
            else f"{path}[{lenient_json.compact_json(name)}]"
        )
        self._budget.spend(10 + len(place) // 20)
        if not self._fitness.fits(name, way.fields.get("propertyNames", True)):
            raise NoValue("propertyNames does not allow its name", printable(place, 500))
        schema = self._fitness.of_property(name, way.fields)
        return self.make(schema, printable(place, 500), way.above)

    def _with_more(self, made: dict[str, Json], way: Flat, path: str, *, is_generous: bool) -> Json:
        """The object with properties that have no name of their own, as many as it wants."""
        fields = way.fields
        least = lenient_json.first_count(fields.get("minProperties")) or 0
        is_map = isinstance(fields.get("additionalProperties"), dict) and not made
        wanted = max(least, 1 if is_map and is_generous else 0)
        if wanted > _MOST:
            raise SchemaTooExpensive(_MANY)
        for attempt in range(wanted * 2 + _OTHERS if wanted > len(made) else 0):
            if len(made) >= wanted:
                break
            try:
                name = self._name(fields, path, way.above, attempt)
                if name not in made:
                    made[name] = self._property(name, way, path)
            except NoValue:
                if attempt >= _TRIES:
                    break
        if len(made) < least:
            raise NoValue(f"it needs {least} properties, and has no names for them")
        return made

    def _name(self, fields: Fields, path: str, above: frozenset[str], attempt: int) -> str:
        seed = f"{self._seed}\0{path}\0{attempt}"
        named_by = list(lenient_json.object_fields(fields.get("patternProperties")))
        if "propertyNames" in fields:
            named: Json = {"allOf": [fields["propertyNames"], {"type": "string"}]}
            return lenient_json.str_or_empty(self.make(named, path, above, attempt))
        if named_by and fields.get("additionalProperties") is False:
            return self._named_by(named_by[attempt % len(named_by)], attempt, seed)
        return texts.word(seed) + (str(attempt) if attempt > _TRIES else "")

    def _array(self, way: Flat, path: str) -> Json:
        fields = way.fields
        first = lenient_json.array_items(fields.get("prefixItems"))
        rest: Json = fields.get("items", True)
        least = lenient_json.first_count(fields.get("minItems")) or 0
        most = _room(fields, "Items")
        if least > _MOST:
            raise SchemaTooExpensive(_MANY)
        wanted = len(first) or (_ITEMS if self._left > _MOST - _PLENTY else 0)
        wanted = max(least, min(wanted, most))
        made: list[Json] = []
        kinds: set[Hashable] = set()
        for at in range(wanted):
            schema = first[at] if at < len(first) else rest
            try:
                made.append(self._item(kinds, schema, f"{path}[{at}]", way))
            except NoValue:
                if len(made) < least:
                    raise
                break
        return made

    def _item(self, kinds: set[Hashable], schema: Json, path: str, way: Flat) -> Json:
        """An item, of its own kind where it must be.  Raises `NoValue` where there is none."""
        if way.fields.get("uniqueItems") is not True:
            return self.make(schema, path, way.above)
        for attempt in range(_OTHERS):
            item = self.make(schema, path, way.above, attempt)
            kind = key(item, self._budget)
            if kind not in kinds:
                kinds.add(kind)
                return item
        raise NoValue("no item is known that is like no other", path)

    def _named_by(self, pattern: str, attempt: int, seed: str) -> str:
        """A name that matches, a longer one at each attempt, where there is one."""
        for length in (attempt, 0):
            with suppress(ValueError):
                return regex_engine.matching(pattern, length, None, seed, self._budget)
        raise NoValue(f"no name is known that matches {printable(pattern, 100)}")


def _room(fields: Fields, label: str, least: int = 0) -> int:
    """The most items or properties there may be.  Raises `NoValue` for less than there must."""
    least = max(least, lenient_json.first_count(fields.get(f"min{label}")) or 0)
    most = lenient_json.first_count(fields.get(f"max{label}"))
    if most is not None and most < least:
        raise NoValue(f"nothing has at least {least} and at most {most} {label.lower()}")
    return _MOST if most is None else most


def _types(way: Flat, path: str) -> tuple[str, ...]:
    """The types to make, those that a schema without any seems to be meant for."""
    if way.types:
        return way.types
    meant = (kind for kind, names in _KEYWORDS if not way.fields.keys().isdisjoint(names))
    return (next(meant, "object" if path == "$" else "string"),)


def _suggested(fields: Fields) -> Iterator[Json]:
    """The values that a schema itself suggests; null is no suggestion."""
    for suggested in ([fields.get("default")], fields.get("examples"), [fields.get("example")]):
        yield from (
            array_item
            for array_item in lenient_json.array_items(suggested)
            if array_item is not None
        )
