"""Values made up to fit a JSON Schema: arguments of calls, and answers in a form asked for.

The same schema and seed give the same value.  Where a schema has an example or a default, that is
taken.  Required properties are always there, others too, unless they would go on without an end
or cannot be made.  Of several ways to be valid the first is taken that works; null is the last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Final

from llm_proxy.dialects import reading
from llm_proxy.dialects.reading import Fields
from llm_proxy.errors import CannotMake, printable
from llm_proxy.scenario.making.json_schema import numbers, patterns, texts
from llm_proxy.scenario.making.json_schema.fitness import Fitness, of_property
from llm_proxy.scenario.making.json_schema.merging import NoValue, alike
from llm_proxy.scenario.making.json_schema.schemas import COMBINED, Flat, Schemas, plain
from llm_proxy.scenario.rolls import below
from llm_proxy.turns import Json

_MOST: Final = 20_000
"""Values and ways to be valid that one schema may ask for."""
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


class _TooMuch(Exception):
    """A schema asks for more than anybody could want."""


def value(schema: Json, seed: str, given: Mapping[str, Json] | None = None) -> Json:
    """A value that is valid against the schema; an object where the schema says nothing.

    `given` are properties of it that are not made up: they are taken as they are, and what is
    made goes with them where it can.  Raises `CannotMake`, naming the place, where there is no
    such value or the schema asks for what is not understood.
    """
    fixed = dict(given or {})
    schema = {} if schema is None else schema
    try:
        made = _beside(fixed, schema, seed) if fixed else _Maker(schema, seed).make(schema, "$")
    except NoValue as error:
        raise CannotMake(_refusal(error.path or "$", error.why)) from None
    except _TooMuch:
        raise CannotMake(_refusal("$", f"it asks for more than {_MOST} values")) from None
    except RecursionError:
        raise CannotMake(_refusal("$", "its schemas are nested too deeply")) from None
    if not fixed:
        return made
    if not isinstance(made, dict):
        names = printable(", ".join(fixed), 100)
        raise CannotMake(f"the schema asks for no object, so nothing can be given for {names}")
    return made | fixed


def _refusal(path: str, why: str) -> str:
    return (
        f"no value can be made up at {path}: {why}; write it in the scenario, or give the schema "
        "an example"
    )


def _beside(fixed: dict[str, Json], schema: Json, seed: str) -> Json:
    """A value that goes with what is given, else one that is valid without it."""
    consts: dict[str, Json] = {name: {"const": it} for name, it in fixed.items()}
    wanted: Json = {"allOf": [schema, {"properties": consts, "required": list(fixed)}]}
    try:
        return _Maker(schema, seed).make(wanted, "$")
    except (NoValue, _TooMuch):
        return _Maker(schema, seed).make(schema, "$")


class _Maker:
    """One schema on its way into a value, and how much it may still ask for."""

    def __init__(self, root: Json, seed: str) -> None:
        self._schemas = Schemas(root)
        self._fitness = Fitness(self._schemas)
        self._seed = seed
        self._left = _MOST

    def make(
        self, schema: Json, path: str, above: frozenset[str] = _ROOT, attempt: int = 0
    ) -> Json:
        """A value for a schema at a path; another one at another attempt.

        Raises `NoValue` where there is none, `_TooMuch` where it is not worth going on.
        """
        why: NoValue | None = None
        try:
            is_held = not _HELD.isdisjoint(plain(schema))
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
            raise _TooMuch
        return sorted(ways, key=lambda it: isinstance(it, Flat) and it.types == ("null",))

    def _made(self, way: Flat, path: str, attempt: int, tries: int) -> Iterator[Json]:
        """Values for one way to be valid, the likeliest first."""
        fields = way.fields
        if "enum" in fields:
            listed = reading.array(fields["enum"])
            start = below(len(listed) or 1, self._seed, path) + attempt
            turned = (listed[(start + at) % len(listed)] for at in range(len(listed)))
            yield from sorted(self._fitting(turned, fields), key=lambda it: it is None)
            return
        if attempt == 0:
            yield from self._fitting(_suggested(fields), fields)
        for kind in sorted(_types(way, path), key=lambda it: it == "null"):
            for more in range(tries):
                yield self._typed(kind, way, path, attempt + more)

    def _fitting(self, values: Iterator[Json], fields: Fields) -> Iterator[Json]:
        return (it for it in values if self._fitness.fits(it, dict(fields)))

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
                    return texts.text(way.fields, seed)
                case "integer" | "number":
                    return numbers.number(way.fields, seed, whole=kind == "integer")
                case "boolean":
                    return (below(2, self._seed, path) + attempt) % 2 == 0
                case _:
                    return None
        except ValueError as error:
            raise NoValue(str(error), path) from None

    def _object(self, way: Flat, path: str, attempt: int) -> Json:
        """An object; with nothing but what must be in it at the second attempt, or a late one."""
        fields = way.fields
        required = [it for it in reading.array(fields.get("required")) if isinstance(it, str)]
        optional = [it for it in reading.fields(fields.get("properties")) if it not in required]
        most = reading.count(fields.get("maxProperties"))
        room = len(optional) if most is None else max(most - len(required), 0)
        is_generous = attempt != 1 and self._left > _MOST - _PLENTY
        made: dict[str, Json] = {}
        for name in (*reading.fields(fields.get("properties")), *required):
            if name in required:
                made.setdefault(name, self._property(name, way, path))
            elif is_generous and room > 0:
                try:
                    made[name] = self._property(name, way, path)
                    room -= 1
                except NoValue:  # it goes without
                    continue
        return self._with_more(made, way, path, is_generous=is_generous)

    def _property(self, name: str, way: Flat, path: str) -> Json:
        place = f"{path}.{name}" if name.isidentifier() else f"{path}[{reading.compact(name)}]"
        return self.make(of_property(name, way.fields), printable(place, 500), way.above)

    def _with_more(self, made: dict[str, Json], way: Flat, path: str, *, is_generous: bool) -> Json:
        """The object with properties that have no name of their own, as many as it wants."""
        fields = way.fields
        least = reading.count(fields.get("minProperties")) or 0
        is_map = isinstance(fields.get("additionalProperties"), dict) and not made
        wanted = max(least, 1 if is_map and is_generous else 0)
        if wanted > _MOST:
            raise _TooMuch
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
        """A name for a property."""
        seed = f"{self._seed}\0{path}\0{attempt}"
        named_by = list(reading.fields(fields.get("patternProperties")))
        if "propertyNames" in fields:
            named: Json = {"allOf": [fields["propertyNames"], {"type": "string"}]}
            return reading.text(self.make(named, path, above, attempt))
        if named_by and fields.get("additionalProperties") is False:
            return _named_by(named_by[attempt % len(named_by)], attempt, seed)
        return texts.word(seed) + (str(attempt) if attempt > _TRIES else "")

    def _array(self, way: Flat, path: str) -> Json:
        fields = way.fields
        first = reading.array(fields.get("prefixItems"))
        rest: Json = fields.get("items", True)
        least = reading.count(fields.get("minItems")) or 0
        most = reading.count(fields.get("maxItems"))
        if least > _MOST:
            raise _TooMuch
        wanted = len(first) or (_ITEMS if self._left > _MOST - _PLENTY else 0)
        wanted = max(least, wanted if most is None else min(wanted, most))
        made: list[Json] = []
        for at in range(wanted):
            schema = first[at] if at < len(first) else rest
            try:
                self._append(made, schema, f"{path}[{at}]", way)
            except NoValue:
                if len(made) < least:
                    raise
                break
        return made

    def _append(self, made: list[Json], schema: Json, path: str, way: Flat) -> None:
        """Add an item, of its own kind where it must be.  Raises `NoValue` where there is none."""
        is_set = way.fields.get("uniqueItems") is True
        for attempt in range(_OTHERS if is_set else 1):
            item = self.make(schema, path, way.above, attempt)
            if not is_set or not any(alike(item, it) for it in made):
                made.append(item)
                return
        raise NoValue("no item is known that is like no other", path)


def _named_by(pattern: str, attempt: int, seed: str) -> str:
    """A name that matches, a longer one at each attempt, where there is one."""
    for length in (attempt, 0):
        with suppress(ValueError):
            return patterns.matching(pattern, length, None, seed)
    raise NoValue(f"no name is known that matches {printable(pattern, 100)}")


def _types(way: Flat, path: str) -> tuple[str, ...]:
    """The types to make, those that a schema without any seems to be meant for."""
    if way.types:
        return way.types
    meant = (kind for kind, names in _KEYWORDS if not way.fields.keys().isdisjoint(names))
    return (next(meant, "object" if path == "$" else "string"),)


def _suggested(fields: Fields) -> Iterator[Json]:
    """The values that a schema itself suggests; null is no suggestion."""
    for suggested in ([fields.get("default")], fields.get("examples"), [fields.get("example")]):
        yield from (it for it in reading.array(suggested) if it is not None)
