"""The JSON Schema of scenario files accepts whatever lint accepts, and supports editors."""

from __future__ import annotations

import copy
from typing import Any, Final

import orjson
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from msgspec.structs import fields

from case_tables import each_row
from full_scenario import DOCUMENT, MOCK, SCENARIO
from llm_proxy.scenario.documents import document
from llm_proxy.scenario.documents.document import scenario_schema
from llm_proxy.scenario.documents.loading import parse_scenario_file

SCHEMA: Final = orjson.loads(orjson.dumps(scenario_schema()))
VALIDATOR: Final = Draft202012Validator(SCHEMA)


def passes_lint(value: Any) -> bool:
    loaded = parse_scenario_file("s.json", orjson.dumps(value))
    return not loaded.mistakes and not any(warning.fails_lint for warning in loaded.warnings)


def test_it_is_a_schema_of_the_draft_that_it_names() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert "$id" not in SCHEMA


@each_row(
    "value",
    [SCENARIO, [SCENARIO, SCENARIO | {"id": "another"}], DOCUMENT, {"mock": MOCK}, []],
    ids=["scenario", "list", "document", "mock", "empty list"],
)
def test_it_takes_every_form_of_a_file(value: Any) -> None:
    VALIDATOR.validate(value)
    assert passes_lint(value)


def test_it_lets_a_file_name_its_schema() -> None:
    VALIDATOR.validate({"$schema": "schema.json"} | SCENARIO)


ODD: Final[st.SearchStrategy[Any]] = st.sampled_from(
    [None, True, 0, 1.0, 2.5, "", "no", "made", [], ["a"], [1, 2], {}, {"a": {}}, {"text": "a"}]
)
FIELDS: Final = [
    (("scenarios", 0), item.name) for item in fields(document.Scenario)
] + [(("scenarios", 0, "turns", 7), item.name) for item in fields(document.ScenarioTurn)] + [
    (("scenarios", 0, "turns", 0, "response"), item.name)
    for item in fields(document.ToolCallsResponse)
] + [(("scenarios", 0, "match"), item.name) for item in fields(document.ScenarioMatch)] + [
    (("mock",), item.name) for item in fields(document.MockSpec)
]  # fmt: skip


@given(st.sampled_from(FIELDS), ODD)
def test_it_takes_whatever_lint_takes(place: tuple[tuple[Any, ...], str], odd: Any) -> None:
    value = copy.deepcopy(DOCUMENT)
    holder: Any = value
    for step in place[0]:
        holder = holder[step]
    holder[place[1]] = odd

    assert VALIDATOR.is_valid(value) or not passes_lint(value)


@each_row(
    ("place", "name", "value"),
    [
        (("scenarios", 0), "descriptoin", "a"),
        (("scenarios", 0, "turns", 7), "turn", 0),
        (("scenarios", 0, "turns", 7), "failure_status", "rate_limited"),
        (("scenarios", 0, "turns", 7), "expected_reasoning", "on"),
        (("scenarios", 0, "turns", 0, "response"), "kind", "tool-cal"),
        (("scenarios", 0, "turns", 0, "response"), "tool_calls", []),
        (("mock",), "thinking_ms", [1, 2, 3]),
    ],
)
def test_it_refuses_what_an_editor_should_mark(
    place: tuple[Any, ...], name: str, value: Any
) -> None:
    document = copy.deepcopy(DOCUMENT)
    holder: Any = document
    for step in place:
        holder = holder[step]
    holder[name] = value

    assert not VALIDATOR.is_valid(document)
    assert not passes_lint(document)


def test_every_field_has_a_description() -> None:
    undescribed = [
        f"{name}.{field}"
        for name, definition in SCHEMA["$defs"].items()
        for field, schema in definition["properties"].items()
        if "description" not in schema and field not in {"kind", "part"}
    ]

    assert undescribed == []
    assert all(item["description"] for item in SCHEMA["$defs"].values())
