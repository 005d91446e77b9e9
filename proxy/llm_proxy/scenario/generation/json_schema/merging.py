"""Two JSON Schemas as one that asks for what both ask for, as far as one can say it.

Where it cannot, it asks for less: what is made by it is held against both.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from itertools import zip_longest
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.scenario.generation.json_schema.budget import SchemaBudget
from llm_proxy.turns import Json

_LARGE: Final = 2**63
"""From here on, whole numbers are told apart as texts."""


class NoValue(Exception):
    """Nothing can be made of a schema, for a reason in a few words."""

    def __init__(self, why: str, path: str = "") -> None:
        self.why = why
        self.path = path
        super().__init__(why)


def key(value: Json, budget: SchemaBudget) -> Hashable:
    """What is the same for values that are the same JSON: 1 and 1.0 are, 1 and true are not."""
    budget.spend()
    match value:
        case bool():
            return ("boolean", value)
        case int() if abs(value) > _LARGE:
            return _large(value)
        case list():
            return ("array", tuple([key(content, budget) for content in value]))
        case dict():
            return (
                "object",
                frozenset([(name, key(argument, budget)) for name, argument in value.items()]),
            )
        case _:
            return value


def _large(value: int) -> Hashable:
    """The float that it is, or else its digits: numbers of one hash are easily found."""
    with suppress(OverflowError):
        if float(value) == value:
            return float(value)
    return ("number", hex(value))


def merged(first: Fields, second: Fields, budget: SchemaBudget) -> dict[str, Json]:
    """Both in one, in the words of draft 2020-12.  Raises `NoValue` where nothing could be both."""
    budget.spend(1 + (len(first) + len(second)) // 4)
    both = dict(first)
    for name, value in second.items():
        merge = _MERGES.get(name, _first)
        both[name] = merge(first[name], value, budget) if name in first else value
    return both


def _first(first: Json, _second: Json, _budget: SchemaBudget) -> Json:
    return first


def _all(first: Json, second: Json, _budget: SchemaBudget) -> Json:
    return {"allOf": [first, second]}


def _each(first: Json, second: Json, budget: SchemaBudget) -> Json:
    budget.spend(
        (len(lenient_json.object_fields(first)) + len(lenient_json.object_fields(second))) // 4
    )
    both = dict(lenient_json.object_fields(first))
    for name, schema in lenient_json.object_fields(second).items():
        both[name] = _all(both[name], schema, budget) if name in both else schema
    return both


def _in_order(first: Json, second: Json, budget: SchemaBudget) -> Json:
    pairs = zip_longest(
        lenient_json.array_items(first), lenient_json.array_items(second), fillvalue=True
    )
    budget.spend(
        (len(lenient_json.array_items(first)) + len(lenient_json.array_items(second))) // 2
    )
    return [_all(one, other, budget) for one, other in pairs]


def _joined(first: Json, second: Json, budget: SchemaBudget) -> Json:
    both = [*_several(first), *_several(second)]
    return list({key(value, budget): value for value in both}.values())


def _several(value: Json) -> list[Json]:
    return value if isinstance(value, list) else [value]


def _shared(first: Json, second: Json, budget: SchemaBudget) -> Json:
    others = {key(array_item, budget) for array_item in lenient_json.array_items(second)}
    return [
        array_item
        for array_item in lenient_json.array_items(first)
        if key(array_item, budget) in others
    ]


def _types(first: Json, second: Json, _budget: SchemaBudget) -> Json:
    """The types that both allow; a whole number is a number."""
    one, other = lenient_json.array_items(first), lenient_json.array_items(second)
    if not one or not other:
        return one or other
    types: list[Json] = [
        value for value in one if value in other or (value == "integer" and "number" in other)
    ]
    types += [
        value for value in other if value == "integer" and "number" in one and value not in one
    ]
    if not types:
        raise NoValue(
            f"nothing is both {lenient_json.compact_json(first)} and "
            f"{lenient_json.compact_json(second)}"
        )
    return types


def _same(first: Json, second: Json, _budget: SchemaBudget) -> Json:
    if first != second:
        raise NoValue("texts of two patterns or formats are not understood")
    return first


def _most(first: Json, second: Json, _budget: SchemaBudget) -> Json:
    return max(first, second) if _are_numbers(first, second) else second  # type: ignore[type-var] # asked before


def _least(first: Json, second: Json, _budget: SchemaBudget) -> Json:
    return min(first, second) if _are_numbers(first, second) else second  # type: ignore[type-var] # asked before


def _are_numbers(*values: Json) -> bool:
    return all(isinstance(value, int | float) for value in values)


_MERGES: Final[Mapping[str, Callable[[Json, Json, SchemaBudget], Json]]] = {
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
