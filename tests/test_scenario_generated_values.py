"""Values generated for a JSON Schema are reproducible, and valid according to `jsonschema`."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

from case_tables import each_row
from llm_proxy.errors import SchemaNotSatisfiable
from llm_proxy.scenario.generation.generated_values import make_value
from llm_proxy.scenario.generation.scalars import SchemaBudget, make_matching_text
from llm_proxy.turns import Json

Schema = dict[str, Any]

NODE: Final[Schema] = {
    "$ref": "#/$defs/node",
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "value": {"type": "integer", "minimum": 1, "maximum": 1},
                "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
                "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]},
            },
            "required": ["value", "children", "next"],
            "additionalProperties": False,
        }
    },
}
SUM: Final[Schema] = {
    "$ref": "#/$defs/sum",
    "$defs": {
        "term": {"anyOf": [{"$ref": "#/$defs/sum"}, {"const": 1}]},
        "sum": {
            "type": "object",
            "properties": {"left": {"$ref": "#/$defs/term"}, "right": {"$ref": "#/$defs/term"}},
            "required": ["left", "right"],
        },
    },
}


def is_valid(value: Json, schema: Schema) -> bool:
    return Draft202012Validator(
        schema, format_checker=Draft202012Validator.FORMAT_CHECKER
    ).is_valid(value)


@each_row(
    ("schema", "expected"),
    [
        (None, {}),
        ({}, {}),
        ({"type": "object"}, {}),
        ({"type": "null"}, None),
        ({"const": {"a": [1, None]}}, {"a": [1, None]}),
        ({"type": "string", "enum": ["only"]}, "only"),
        ({"type": "string", "default": "usual"}, "usual"),
        ({"type": "string", "examples": [7, "Bonn", "Kiel"]}, "Bonn"),
        ({"type": "string", "example": "Bonn"}, "Bonn"),
        ({"type": "integer", "minimum": 7, "maximum": 7}, 7),
        ({"type": "number", "exclusiveMinimum": 6, "maximum": 7, "multipleOf": 7}, 7),
        ({"type": ["null", "boolean"], "enum": [None, True]}, True),
        ({"anyOf": [{"type": "null"}, {"const": 1}]}, 1),
        ({"type": "object", "properties": {"a": {"const": 1}}}, {"a": 1}),
        ({"properties": {"b": {"const": 1}, "a": {"const": 2}}}, {"b": 1, "a": 2}),
        (
            {"properties": {"a": {"const": 1}, "b": False, "c": {"const": 2}}, "required": ["c"]},
            {"a": 1, "c": 2},
        ),
        ({"allOf": [{"minimum": 3}, {"type": "integer"}, {"maximum": 3}]}, 3),
        ({"type": "array", "prefixItems": [{"const": "a"}, {"const": 1}]}, ["a", 1]),
        ({"type": "array", "items": {"const": 0}, "maxItems": 1}, [0]),
        (NODE, {"value": 1, "children": [], "next": None}),
        (SUM, {"left": 1, "right": 1}),
        ({"items": {"$ref": "#"}}, []),
    ],
)
def test_a_schema_that_leaves_no_choice_gives_that_value(schema: Json, expected: Json) -> None:
    assert make_value(schema, "seed") == expected


@each_row(
    ("schema", "expected"),
    [
        ({"type": "STRING", "enum": ["ONE"], "nullable": True}, "ONE"),
        ({"type": "TYPE_UNSPECIFIED", "enum": ["x"]}, "x"),
        (
            {"type": "ARRAY", "minItems": "3", "maxItems": "3", "items": {"enum": ["A"]}},
            ["A", "A", "A"],
        ),
        (
            {
                "type": "OBJECT",
                "properties": {"at": {"type": "INTEGER", "minimum": 2, "maximum": 2}},
                "propertyOrdering": ["at"],
            },
            {"at": 2},
        ),
        ({"type": "integer", "minimum": 1, "exclusiveMinimum": True, "maximum": 2}, 2),
        ({"items": [{"const": 1}], "additionalItems": False}, [1]),
        ({"items": [{"const": 1}], "maxItems": 1}, [1]),
        ({"type": "string", "minLength": None, "enum": ["x"], "title": None}, "x"),
    ],
    ids=[
        *("nullable", "no type", "counts as texts", "order", "draft 4", "draft 7", "only items"),
        "nulls",
    ],
)
def test_other_spellings_of_schemas_are_read(schema: Json, expected: Json) -> None:
    assert make_value(schema, "seed") == expected


SCHEMAS: Final[list[Schema]] = [
    {"oneOf": [{"type": "number", "multipleOf": 5}, {"type": "number", "multipleOf": 3}]},
    {"type": "string", "not": {"enum": ["elm fir"]}, "maxLength": 7},
    {"type": "array", "uniqueItems": True, "minItems": 3, "items": {"enum": [1, True, "1"]}},
    {"type": "array", "uniqueItems": True, "minItems": 9, "items": {"type": "string"}},
    {"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 4},
    {"type": "object", "propertyNames": {"pattern": "^[a-z]{2}$"}, "minProperties": 3},
    {"type": "number", "minimum": 3.05, "maximum": 9, "multipleOf": 0.1},
    {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1e-9},
    {"type": "integer", "minimum": 10**30},
    {"type": "string", "pattern": "^[A-Z]{3}-\\d+$", "minLength": 30, "maxLength": 40},
    {"allOf": [NODE["$defs"]["node"], {"properties": {"value": {"minimum": 0}}}], **NODE},
    {"anyOf": [{"type": "object", "required": ["a"]}, {"type": "array"}], "required": ["b"]},
    {"type": "object", "properties": {"a b": {"type": "string"}, "": {"type": "null"}}},
]


@each_row("schema", SCHEMAS)
def test_what_is_made_is_valid(schema: Schema) -> None:
    for seed in "abcde":
        value = make_value(schema, seed)

        assert is_valid(value, schema), value
        assert make_value(schema, seed) == value


FORMATS: Final = {
    "date": r"\d{4}-\d\d-\d\d",
    "date-time": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ",
    "time": r"\d\d:\d\d:\d\dZ",
    "email": r"[a-z]+@example\.com",
    "uri": r"https://example\.com/[a-z]+",
    "uuid": r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}",
    "ipv4": r"192\.0\.2\.\d{1,3}",
    "ipv6": r"2001:db8::[0-9a-f]{1,4}",
    "hostname": r"[a-z]+\.example\.com",
}


@each_row("name", FORMATS)
def test_a_format_is_kept(name: str) -> None:
    schema: Schema = {"type": "string", "format": name}
    for seed in "abcde":
        value = make_value(schema, seed)

        assert isinstance(value, str)
        assert re.fullmatch(FORMATS[name], value)
        assert is_valid(value, schema)


def test_a_length_wins_over_a_format_that_has_another() -> None:
    value = make_value(
        {"type": "string", "format": "email", "minLength": 3, "maxLength": 3}, "seed"
    )

    assert isinstance(value, str)
    assert len(value) == 3


def test_formats_tell_alternatives_apart() -> None:
    either: Json = {"type": "string", "oneOf": [{"format": "date"}, {"format": "date-time"}]}

    assert re.fullmatch(FORMATS["date"], str(make_value(either, "seed")))


def test_another_seed_gives_another_value() -> None:
    schema: Json = {"type": "object", "properties": {"id": {"type": "string", "format": "uuid"}}}

    assert len({json.dumps(make_value(schema, seed)) for seed in "abcde"}) == 5


KINDS: Final[Schema] = {
    "anyOf": [
        {
            "type": "object",
            "properties": {"kind": {"const": "a"}, "x": {"const": 1}},
            "required": ["kind", "x"],
            "additionalProperties": False,
        },
        {
            "type": "object",
            "properties": {"kind": {"const": "b"}, "y": {"const": 2}},
            "required": ["kind", "y"],
            "additionalProperties": False,
        },
    ]
}


@each_row(
    ("initial", "expected"),
    [
        ({}, {"kind": "a", "x": 1}),
        ({"kind": "b"}, {"kind": "b", "y": 2}),
        ({"y": 2}, {"kind": "b", "y": 2}),
        ({"kind": "c", "z": [1]}, {"kind": "c", "x": 1, "z": [1]}),
    ],
    ids=["nothing", "which kind", "what only one has", "what is not valid"],
)
def test_given_properties_are_kept_and_the_rest_fits_them(
    initial: dict[str, Json], expected: Json
) -> None:
    assert make_value(KINDS, "seed", initial) == expected


CHAIN: Final[Schema] = {"$ref": "#/$defs/a", "$defs": {"a": {"required": ["a"], "properties": {}}}}
CHAIN["$defs"]["a"]["properties"]["a"] = {"$ref": "#/$defs/a"}
UNSUPPORTED: Final[Schema] = {"pattern": "(?=x)"}


@each_row(
    ("schema", "reason"),
    [
        (False, "$: no generated value satisfies the schema"),
        ({"enum": []}, "$: no generated value satisfies the schema"),
        (7, "$: 7 is not a schema"),
        (
            {"type": "strnig"},
            "$: unknown type strnig; known: object, array, string, number, integer, boolean, null",
        ),
        (
            {"type": "integer", "minimum": 3, "maximum": 2},
            "$: no integer can be generated within the bounds",
        ),
        (
            {"allOf": [{"type": "string"}, {"type": "null"}]},
            '$: the types ["string"] and ["null"] contradict each other',
        ),
        (
            {"$ref": "https://x.example/y"},
            "$: https://x.example/y refers to another document, which is not supported",
        ),
        ({"$ref": "#/$defs/x"}, "$: #/$defs/x does not exist"),
        ({"$ref": "#"}, "$: # refers to itself in an endless loop"),
        (CHAIN, "$.a: #/$defs/a refers to itself in an endless loop"),
        (
            {"required": ["a"], "properties": {"a": {"minItems": 1, "items": UNSUPPORTED}}},
            "$.a[0]: the pattern (?=x) is not supported",
        ),
        ({"type": "array", "contains": {}}, "$: the keyword contains is not supported"),
        (
            {"patternProperties": {"^x-": {}}, "minProperties": 2},
            "$: the keyword patternProperties is not supported",
        ),
        ({"if": {}, "then": {"required": ["c"]}}, "$: the keyword if is not supported"),
        (
            {"required": ["a b"], "additionalProperties": False},
            '$["a b"]: no generated value satisfies the schema',
        ),
        (
            {"minProperties": 1, "additionalProperties": False},
            "$: the schema requires 1 properties; not enough names can be generated",
        ),
        (
            {"type": "string", "minLength": 9, "maxLength": 8},
            "$: the schema requires at least 9 but at most 8 characters",
        ),
        (
            {"type": "string", "minLength": 10**9},
            "$: the required text of 1000000000 characters is too long",
        ),
        ({"type": "array", "minItems": 10**9}, "$: the schema requires more than 20000 values"),
        (
            {"type": "array", "minItems": 3, "uniqueItems": True, "items": {"type": "boolean"}},
            "$[2]: too few distinct items can be generated (uniqueItems)",
        ),
    ],
)
def test_unsatisfiable_schemas_are_reported_with_their_place(schema: Json, reason: str) -> None:
    with pytest.raises(SchemaNotSatisfiable) as refused:
        make_value(schema, "seed")

    hint = "set the value in the scenario, or add an example to the schema"
    assert str(refused.value) == f"cannot generate a value at {reason}; {hint}"


def test_nothing_can_be_given_for_what_is_no_object() -> None:
    with pytest.raises(
        SchemaNotSatisfiable, match="does not describe an object, so a, b cannot be set"
    ):
        make_value({"type": "array"}, "seed", {"a": 1, "b": 2})


def test_a_schema_without_an_end_is_not_followed_to_it() -> None:
    names = [f"n{number}" for number in range(9)]
    every: Json = {"properties": {name: {"$ref": f"#/$defs/{name}"} for name in names}}
    tangle: Json = {"$ref": "#/$defs/n0", "$defs": dict.fromkeys(names, every)}

    assert len(json.dumps(make_value(tangle, "seed"))) < 10_000


def test_a_schema_that_is_nested_without_measure_is_refused() -> None:
    deep: Json = {"type": "string"}
    for _ in range(2_000):
        deep = {"allOf": [deep]}

    with pytest.raises(SchemaNotSatisfiable, match="nested too deeply"):
        make_value(deep, "seed")


@each_row(
    "pattern",
    [
        "", "abc", "^$", "^[a-z]+$", r"^\d{3}-\d{4}$", "^(foo|bar)?$", "^#[0-9a-fA-F]{6}$", "a|b$",
        r"^[^@\s]+@[^@\s]+\.[a-z]{2,}$", r"^\+?[1-9]\d{1,14}$", r"^(?:[a-z0-9]+-)*[a-z]+$",
        r"^[\w.-]+$", "^.*$", "[]a]+", "[^]]", r"^(?P<year>\d{4})", r"^/[^/]*/$", r"^\S+\D\W$",
        r"\.py$", "^a{2,}?$", r"^[\u4e00-\u9fff]{2,4}$", r"^\x41\n?$", "^[+-]?[0-9]+(e-?[0-9]+)?$",
        "^[a-]$", r"^[\]\-]$", "^é+$",
    ],
)  # fmt: skip
def test_a_text_for_a_pattern_matches_it(pattern: str) -> None:
    for seed in "abcde":
        assert re.search(pattern, make_matching_text(pattern, 0, None, seed, SchemaBudget()))


@each_row(
    "pattern",
    [
        "^(?=a)b", r"(a)\1", r"\bword", r"\p{L}", "a**", "[", "(", ")", "a{3,1}", "(^a)", "a$b",
        "\\", "[z-a]", "(?i)a", "(a{999}){999}", "(" * 100 + ")" * 100, r"[^\s\S]",
        r"\ud83d",
    ],
)  # fmt: skip
def test_an_unsupported_pattern_is_reported(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"is not supported|can be generated for|range"):
        make_matching_text(pattern, 0, None, "seed", SchemaBudget())


def spans(least: int, most: int) -> st.SearchStrategy[tuple[int, int]]:
    return st.tuples(st.integers(least, most), st.integers(0, most)).map(
        lambda pair: (pair[0], sum(pair))
    )


LEAVES: Final[st.SearchStrategy[Schema]] = st.one_of(
    st.sampled_from([{}, {"type": "null"}, {"type": "boolean"}, {"type": ["null", "string"]}]),
    spans(0, 30).map(
        lambda bounds: {"type": "string", "minLength": bounds[0], "maxLength": bounds[1]}
    ),
    spans(-50, 50).map(
        lambda bounds: {"type": "integer", "minimum": bounds[0], "maximum": bounds[1]}
    ),
    st.tuples(st.integers(-50, 50), st.sampled_from([0.1, 0.25, 1, 2.5, 7])).map(
        lambda pair: {
            "type": "number",
            "minimum": pair[0],
            "maximum": pair[0] + 7,
            "multipleOf": pair[1],
        }
    ),
    st.floats(-1e9, 1e9).map(lambda minimum: {"type": "number", "exclusiveMinimum": minimum}),
    st.sampled_from(list(FORMATS)).map(lambda name: {"type": "string", "format": name}),
    st.lists(st.none() | st.booleans() | st.integers() | st.text(), min_size=1).map(
        lambda values: {"enum": values}
    ),
    st.sampled_from(["^[a-z]+$", "^x?$", r"\d", "^(a|b){2,3}$"]).map(
        lambda pattern: {"type": "string", "pattern": pattern}
    ),
)
NAMES: Final = st.sampled_from(["a", "b", "c d", "é", ""])


@st.composite
def objects(draw: st.DrawFn, inner: st.SearchStrategy[Schema]) -> Schema:
    properties = draw(st.dictionaries(NAMES, inner, max_size=3))
    required = draw(st.lists(st.sampled_from(list(properties)), unique=True)) if properties else []
    more: Schema = draw(
        st.sampled_from([{}, {"additionalProperties": False}, {"maxProperties": 3}])
    )
    return {"type": "object", "properties": properties, "required": required} | more


@st.composite
def arrays(draw: st.DrawFn, inner: st.SearchStrategy[Schema]) -> Schema:
    least, most = draw(spans(0, 3))
    first = draw(st.lists(inner, max_size=2))
    kept = {"prefixItems": first} if first else {}
    return {"type": "array", "items": draw(inner), "minItems": least, "maxItems": most} | kept


SATISFIABLE: Final = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        objects(inner),
        arrays(inner),
        st.lists(inner, min_size=1, max_size=3).map(lambda schemas: {"anyOf": schemas}),
        inner.map(lambda schema: {"allOf": [schema, {}]}),
    ),
    max_leaves=8,
)  # fmt: skip


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(SATISFIABLE, st.text())
def test_a_schema_that_can_be_met_is_met(schema: Schema, seed: str) -> None:
    value = make_value(schema, seed)

    assert is_valid(value, schema), value
    assert make_value(schema, seed) == value


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(SATISFIABLE, min_size=1, max_size=3),
    st.sampled_from(["allOf", "oneOf", "anyOf"]),
    SATISFIABLE,
    st.booleans(),
)
def test_what_is_made_of_combined_schemas_is_valid_where_anything_is(
    schemas: list[Schema], keyword: str, other: Schema, is_not: bool
) -> None:
    schema: Schema = {keyword: schemas, "not" if is_not else "then": other}
    try:
        value = make_value(schema, "seed")
    except SchemaNotSatisfiable:
        return

    assert is_valid(value, schema), value


JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "properties", "items", "enum", "anyOf", "$ref", "required", "minLength",
                 "pattern", "multipleOf", "additionalProperties", "not", "a", "default", "const"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=10,
)  # fmt: skip


@given(JSON)
def test_any_json_is_made_a_value_for_or_refused_in_a_sentence(schema: Json) -> None:
    try:
        value = make_value(schema, "seed")
        Draft202012Validator.check_schema(schema if isinstance(schema, dict) else {})
    except (SchemaNotSatisfiable, SchemaError):
        return

    assert not isinstance(schema, dict) or is_valid(value, schema)
