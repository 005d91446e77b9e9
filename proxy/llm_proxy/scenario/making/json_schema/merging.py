"""Two JSON Schemas as one that asks for what both ask for, as far as one can say it.

Where it cannot, it asks for less: what is made by it is held against both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import zip_longest
from typing import Final

from llm_proxy.dialects import reading
from llm_proxy.dialects.reading import Fields
from llm_proxy.turns import Json


class NoValue(Exception):
    """Nothing can be made of a schema, for a reason in a few words."""

    def __init__(self, why: str, path: str = "") -> None:
        self.why = why
        self.path = path
        super().__init__(why)


def alike(one: Json, other: Json) -> bool:
    """Whether two values are the same JSON: 1 and 1.0 are, 1 and true are not."""
    match one, other:
        case (list(), list()):
            return len(one) == len(other) and all(map(alike, one, other))
        case (dict(), dict()):
            return one.keys() == other.keys() and all(alike(one[it], other[it]) for it in one)
        case _:
            return isinstance(one, bool) is isinstance(other, bool) and one == other


def merged(first: Fields, second: Fields) -> dict[str, Json]:
    """Both in one, in the words of draft 2020-12.  Raises `NoValue` where nothing could be both."""
    both = dict(first)
    for name, value in second.items():
        merge = _MERGES.get(name, _first)
        both[name] = merge(first[name], value) if name in first else value
    return both


def _first(first: Json, _second: Json) -> Json:
    return first


def _all(first: Json, second: Json) -> Json:
    return {"allOf": [first, second]}


def _each(first: Json, second: Json) -> Json:
    both = dict(reading.fields(first))
    for name, schema in reading.fields(second).items():
        both[name] = _all(both[name], schema) if name in both else schema
    return both


def _in_order(first: Json, second: Json) -> Json:
    pairs = zip_longest(reading.array(first), reading.array(second), fillvalue=True)
    return [_all(one, other) for one, other in pairs]


def _joined(first: Json, second: Json) -> Json:
    both = [*_several(first), *_several(second)]
    return [it for at, it in enumerate(both) if it not in both[:at]]


def _several(value: Json) -> list[Json]:
    return value if isinstance(value, list) else [value]


def _shared(first: Json, second: Json) -> Json:
    other = reading.array(second)
    return [one for one in reading.array(first) if any(alike(one, it) for it in other)]


def _types(first: Json, second: Json) -> Json:
    """The types that both allow; a whole number is a number."""
    one, other = reading.array(first), reading.array(second)
    if not one or not other:
        return one or other
    types: list[Json] = [it for it in one if it in other or (it == "integer" and "number" in other)]
    types += [it for it in other if it == "integer" and "number" in one and it not in one]
    if not types:
        raise NoValue(f"nothing is both {reading.compact(first)} and {reading.compact(second)}")
    return types


def _same(first: Json, second: Json) -> Json:
    if first != second:
        raise NoValue("texts of two patterns or formats are not understood")
    return first


def _most(first: Json, second: Json) -> Json:
    return max(first, second) if _are_numbers(first, second) else second  # type: ignore[type-var] # asked before


def _least(first: Json, second: Json) -> Json:
    return min(first, second) if _are_numbers(first, second) else second  # type: ignore[type-var] # asked before


def _are_numbers(*values: Json) -> bool:
    return all(isinstance(it, int | float) for it in values)


_MERGES: Final[Mapping[str, Callable[[Json, Json], Json]]] = {
    "type": _types,
    "enum": _shared,
    "required": _joined,
    "multipleOf": _joined,
    "properties": _each,
    "patternProperties": _each,
    "prefixItems": _in_order,
    "pattern": _same,
    "format": _same,
    **dict.fromkeys(("items", "additionalProperties", "propertyNames"), _all),
    **dict.fromkeys(("minimum", "exclusiveMinimum"), _most),
    **dict.fromkeys(("minItems", "minLength", "minProperties"), _most),
    **dict.fromkeys(("maximum", "exclusiveMaximum"), _least),
    **dict.fromkeys(("maxItems", "maxLength", "maxProperties"), _least),
}
"""How two values of a keyword become one; of all others the first is kept."""
