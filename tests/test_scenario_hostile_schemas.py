"""A JSON Schema of a request can neither block the proxy nor make it send invalid values.

Work is counted in steps, so its limits are the same on every machine.
"""

from __future__ import annotations

import re
from time import process_time
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

from case_tables import each_row
from llm_proxy.errors import SchemaNotSatisfiable
from llm_proxy.scenario.generation.generated_values import make_value
from llm_proxy.scenario.generation.scalars import (
    MAX_STEPS,
    SchemaBudget,
    SchemaTooExpensive,
    make_matching_text,
    matches_anywhere,
    parse_regex,
)
from llm_proxy.turns import Json

MAX_BUDGETS: Final = 100
"""The CPU time of a value in whole budgets of empty steps, of which one takes about ten."""
MANY_VALUES: Final[list[Json]] = [f"value {number}" for number in range(4_000)]
SLOW: Final = "a" * 50 + "!"


def doubling_definitions(keyword: str, height: int) -> dict[str, Any]:
    """Return schemas each of which references the next one twice."""
    references = [[{"$ref": f"#/$defs/n{at + 1}"}] * 2 for at in range(height)]
    definitions: dict[str, Any] = {f"n{at}": {keyword: both} for at, both in enumerate(references)}
    return definitions | {f"n{height}": {"type": "null"}}


def nested(depth: int) -> Json:
    """Return lists nested to this depth."""
    nested_list: Json = []
    for _ in range(depth):
        nested_list = [nested_list]
    return nested_list


TREE: Final[dict[str, Any]] = {
    f"n{at}": {
        "required": ["left", "right"],
        "properties": {side: {"$ref": f"#/$defs/n{at + 1}"} for side in ("left", "right")},
        "not": {"const": at},
    }
    for at in range(20)
}

EXPENSIVE_SCHEMAS: Final[dict[str, Json]] = {
    "repeats of little": {"pattern": "(((a|){9999}){9999}){9999}"},
    "repeats in repeats": {"type": "string", "pattern": "^(a+)+$", "enum": [SLOW] * 4_000},
    "repeats in a row": {"pattern": "a*" * 200 + "b", "default": "a" * 30_000},
    "choices of the same": {"pattern": "^(a|a)*(a|a)*$", "default": "a" * 30_000 + "!"},
    "ways that part": {"not": {"$ref": "#/$defs/n0"}, "$defs": doubling_definitions("anyOf", 18)},
    "a tree": {"$ref": "#/$defs/n0", "$defs": TREE | {"n20": {"type": "string"}}},
    "names of both": {
        "allOf": [{"required": MANY_VALUES}, {"required": [f"{item}!" for item in MANY_VALUES]}],
    },
    "unique items": {
        "minItems": 3_000,
        "uniqueItems": True,
        "items": {"type": "integer", "minimum": 0, "maximum": 2_000},
    },
    "numbers that are none": {
        "items": {"anyOf": [{"type": "integer", "not": {}, "minimum": 1e300}] * 500},
        "minItems": 9,
    },
    "long texts": {"minItems": 2_000, "items": {"type": "string", "minLength": 1_000_000}},
    "a long default": {"minItems": 2_000, "items": {"default": MANY_VALUES}},
    "classes": {"pattern": "[" + "a-z" * 30_000 + "]"},
}


@pytest.fixture(scope="module")
def max_seconds() -> float:
    """The most CPU seconds of a value, by the speed of this machine."""
    start, budget = process_time(), SchemaBudget()
    for _ in range(MAX_STEPS):
        budget.spend()
    return MAX_BUDGETS * (process_time() - start)


@each_row("schema", EXPENSIVE_SCHEMAS.values(), ids=EXPENSIVE_SCHEMAS)
def test_expensive_schemas_are_refused_soon(schema: Json, max_seconds: float) -> None:
    start = process_time()

    with pytest.raises(
        SchemaNotSatisfiable, match=r"takes too long|of this length|within the bounds"
    ):
        make_value(schema, "seed")
    assert process_time() - start < max_seconds


@each_row(
    ("schema", "reason"),
    [
        (
            {"type": "string", "pattern": "(((){9999}){9999}){9999}"},
            "$: the pattern (((){9999}){9999}){9999} is not supported",
        ),
        ({"minimum": 10**400}, "$: the value of minimum has too many digits"),
        ({"multipleOf": -(10**400)}, "$: the value of multipleOf has too many digits"),
        ({"default": nested(900)}, "$: the values are nested too deeply"),
        ([[]], "$: a list is not a schema"),
        (
            {"type": [{}]},
            (
                "$: unknown type an object; "
                "known: object, array, string, number, integer, boolean, null"
            ),
        ),
        (
            {"type": "string", "pattern": "(?=x)", "default": "x"},
            "$: the pattern (?=x) is not supported",
        ),
        (
            {"minProperties": 5, "maxProperties": 2},
            "$: the schema requires at least 5 but at most 2 properties",
        ),
        (
            {"required": ["a", "b"], "maxProperties": 1},
            "$: the schema requires at least 2 but at most 1 properties",
        ),
        (
            {"type": "array", "minItems": 3, "maxItems": 1},
            "$: the schema requires at least 3 but at most 1 items",
        ),
        (
            {"required": ["ab"], "propertyNames": {"maxLength": 1}},
            "$.ab: propertyNames does not allow this property name",
        ),
    ],
)  # fmt: skip
def test_unsatisfiable_schemas_are_refused_with_the_reason(schema: Json, reason: str) -> None:
    with pytest.raises(SchemaNotSatisfiable) as refused:
        make_value(schema, "seed")

    assert str(refused.value).startswith(f"cannot generate a value at {reason}; set the value")


@each_row(
    ("schema", "expected"),
    [
        (
            {"properties": {"ab": {}, "c": {"const": 1}}, "propertyNames": {"maxLength": 1}},
            {"c": 1},
        ),
        (
            {"properties": {"a": {"minItems": 2, "maxItems": 1}, "b": {"const": 1}}},
            {"b": 1},
        ),
        ({"allOf": [{"enum": MANY_VALUES}, {"enum": ["?", *MANY_VALUES[:1]]}]}, "value 0"),
        ({"allOf": [{"enum": [1, 2]}, {"enum": [True, 2.0]}]}, 2),
        ({"enum": [10**400], "not": {"enum": [10**400 + 1]}}, 10**400),
        ({"type": ["string"] * 10_000, "default": "x"}, "x"),
    ],
    ids=["names", "counts", "listed", "numbers", "digits", "types"],
)  # fmt: skip
def test_unsatisfiable_parts_are_left_out_and_the_rest_is_made(
    schema: Json, expected: Json
) -> None:
    assert make_value(schema, "seed") == expected


def test_a_list_of_thousands_may_be_chosen_from_again_and_again() -> None:
    value = make_value({"type": "array", "minItems": 500, "items": {"enum": MANY_VALUES}}, "seed")

    assert isinstance(value, list)
    assert len(value) == 500


def test_objects_deep_within_each_other_are_made_once_each() -> None:
    schema: Json = {"const": 1}
    expected: Json = 1
    for _ in range(40):
        schema = {"type": "object", "required": ["a"], "properties": {"a": schema}}
        expected = {"a": expected}

    assert make_value(schema, "seed") == expected


EXPRESSIONS: Final = st.recursive(
    st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\d", r"\W"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{0,2}?"])).map(
            lambda pair: f"({pair[0]}){pair[1]}"
        ),
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda pair: f"(?:{pair[0]}|{pair[1]})"),
    ),
    max_leaves=5,
)  # fmt: skip


@given(
    EXPRESSIONS, st.sampled_from(["", "^"]), st.sampled_from(["", "$"]), st.text("ab1-", max_size=6)
)
def test_an_expression_is_found_where_pythons_own_finds_it(
    inner: str, start: str, end: str, text: str
) -> None:
    pattern = start + inner + end

    assert matches_anywhere(parse_regex(pattern, SchemaBudget()), text, SchemaBudget()) == bool(
        re.search(pattern, text)
    )
    assert re.search(pattern, make_matching_text(pattern, 0, None, "seed", SchemaBudget()))


@given(st.integers(0, 50))
def test_a_budget_ends_where_it_is_spent(steps: int) -> None:
    budget = SchemaBudget(steps)
    for _ in range(steps):
        budget.spend()

    with pytest.raises(SchemaTooExpensive, match="the schema takes too long to evaluate"):
        budget.spend()


KEYWORDS: Final = [
    *("type", "properties", "items", "prefixItems", "enum", "const", "anyOf", "allOf", "oneOf"),
    *("$ref", "required", "minItems", "maxItems", "minProperties", "maxProperties", "uniqueItems"),
    *("pattern", "multipleOf", "minimum", "maximum", "propertyNames", "patternProperties"),
    *("additionalProperties", "not", "default", "if", "then", "else", "minLength", "a"),
]
LEAF_VALUES: Final = st.one_of(
    st.sampled_from(["#", "#/a", "#/not", "object", "array", "string", "integer", "number"]),
    st.sampled_from(["(a*)*", "((a{99}){99}){99}", "(){9}", "^a$", "(", "[^a]", 10**400, 2**70]),
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
)  # fmt: skip
ANY_JSON: Final = st.recursive(
    LEAF_VALUES,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(KEYWORDS), inner, min_size=1, max_size=5)
    ),
    max_leaves=25,
)  # fmt: skip


@given(ANY_JSON, st.booleans())
def test_any_json_as_a_schema_gives_a_valid_value_or_a_refusal_within_bounds(
    max_seconds: float, schema: Json, is_given: bool
) -> None:
    start = process_time()
    try:
        value = make_value(schema, "seed", {"a": 1} if is_given else None)
        Draft202012Validator.check_schema(schema if isinstance(schema, dict) else {})
    except (SchemaNotSatisfiable, SchemaError):
        assert process_time() - start < max_seconds
        return

    assert process_time() - start < max_seconds
    assert is_given or not isinstance(schema, dict) or Draft202012Validator(schema).is_valid(value)
