"""Merges two JSON Schemas into one that requires what both require, as far as it can.

Where it cannot, it requires less, so generated values are validated against both.
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

_MAX_PLAIN_INT: Final = 2**63
"""Larger integers are compared as floats or as texts."""


class NoValueFound(Exception):
    """No value can be generated for a schema; `path` is empty if not known yet."""

    def __init__(self, reason: str, path: str = "") -> None:
        self.reason = reason
        self.path = path
        super().__init__(reason)


def equality_key(value: Json, budget: SchemaBudget) -> Hashable:
    """A hashable key, equal for equal JSON values: 1 equals 1.0, but not true."""
    budget.spend()
    match value:
        case bool():
            return ("boolean", value)
        case int() if abs(value) > _MAX_PLAIN_INT:
            return _large_int_key(value)
        case list():
            return ("array", tuple([equality_key(item, budget) for item in value]))
        case dict():
            return (
                "object",
                frozenset([(name, equality_key(member, budget)) for name, member in value.items()]),
            )
        case _:
            return value


def _large_int_key(value: int) -> Hashable:
    """The equal float, else the digits: large integers with equal hashes are easily found."""
    with suppress(OverflowError):
        if float(value) == value:
            return float(value)
    return ("number", hex(value))


def merge_schemas(first: Fields, second: Fields, budget: SchemaBudget) -> dict[str, Json]:
    """Merge two normalised schemas.  Raises `NoValueFound` if nothing could satisfy both."""
    budget.spend(1 + (len(first) + len(second)) // 4)
    merged_fields = dict(first)
    for name, value in second.items():
        merge = _MERGE_BY_KEYWORD.get(name, _keep_first)
        merged_fields[name] = merge(first[name], value, budget) if name in first else value
    return merged_fields


def _keep_first(first: Json, _second: Json, _budget: SchemaBudget) -> Json:
    return first


def _merge_as_all_of(first: Json, second: Json, _budget: SchemaBudget) -> Json:
    return {"allOf": [first, second]}


def _merge_by_name(first: Json, second: Json, budget: SchemaBudget) -> Json:
    budget.spend(
        (len(lenient_json.object_fields(first)) + len(lenient_json.object_fields(second))) // 4
    )
    merged_fields = dict(lenient_json.object_fields(first))
    for name, schema in lenient_json.object_fields(second).items():
        merged_fields[name] = (
            _merge_as_all_of(merged_fields[name], schema, budget)
            if name in merged_fields
            else schema
        )
    return merged_fields


def _merge_by_index(first: Json, second: Json, budget: SchemaBudget) -> Json:
    pairs = zip_longest(
        lenient_json.array_items(first), lenient_json.array_items(second), fillvalue=True
    )
    budget.spend(
        (len(lenient_json.array_items(first)) + len(lenient_json.array_items(second))) // 2
    )
    return [_merge_as_all_of(one, other, budget) for one, other in pairs]


def _union(first: Json, second: Json, budget: SchemaBudget) -> Json:
    values = [*_as_list(first), *_as_list(second)]
    return list({equality_key(value, budget): value for value in values}.values())


def _as_list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else [value]


def _intersection(first: Json, second: Json, budget: SchemaBudget) -> Json:
    second_keys = {equality_key(value, budget) for value in lenient_json.array_items(second)}
    return [
        value
        for value in lenient_json.array_items(first)
        if equality_key(value, budget) in second_keys
    ]


def _common_types(first: Json, second: Json, _budget: SchemaBudget) -> Json:
    """The types that both allow; `integer` is also a `number`."""
    first_types, second_types = lenient_json.array_items(first), lenient_json.array_items(second)
    if not first_types or not second_types:
        return first_types or second_types
    types: list[Json] = [
        value
        for value in first_types
        if value in second_types or (value == "integer" and "number" in second_types)
    ]
    types += [
        value
        for value in second_types
        if value == "integer" and "number" in first_types and value not in first_types
    ]
    if not types:
        raise NoValueFound(
            f"nothing is both {lenient_json.compact_json(first)} and "
            f"{lenient_json.compact_json(second)}"
        )
    return types


def _require_equal(first: Json, second: Json, _budget: SchemaBudget) -> Json:
    if first != second:
        raise NoValueFound("texts of two patterns or formats are not understood")
    return first


def _larger(first: Json, second: Json, _budget: SchemaBudget) -> Json:
    return max(first, second) if _are_numbers(first, second) else second  # type: ignore[type-var] # checked before


def _smaller(first: Json, second: Json, _budget: SchemaBudget) -> Json:
    return min(first, second) if _are_numbers(first, second) else second  # type: ignore[type-var] # checked before


def _are_numbers(*values: Json) -> bool:
    return all(isinstance(value, int | float) for value in values)


_MERGE_BY_KEYWORD: Final[Mapping[str, Callable[[Json, Json, SchemaBudget], Json]]] = {
    "type": _common_types,
    "enum": _intersection,
    "required": _union,
    "multipleOf": _union,
    "properties": _merge_by_name,
    "patternProperties": _merge_by_name,
    "prefixItems": _merge_by_index,
    "pattern": _require_equal,
    "format": _require_equal,
    **dict.fromkeys(("items", "additionalProperties", "propertyNames"), _merge_as_all_of),
    **dict.fromkeys(("minimum", "exclusiveMinimum"), _larger),
    **dict.fromkeys(("minItems", "minLength", "minProperties"), _larger),
    **dict.fromkeys(("maximum", "exclusiveMaximum"), _smaller),
    **dict.fromkeys(("maxItems", "maxLength", "maxProperties"), _smaller),
}
"""Merges two values of a keyword; of other keywords the first value is kept."""
