"""Evaluation of JSONPaths: every visited or tested value is a step of the budget."""

from __future__ import annotations

import pytest

from case_tables import each_row
from llm_proxy import json_paths
from llm_proxy.errors import JsonPathTooManySteps
from llm_proxy.turns import Json

NUMBERS: Json = list(range(10))


def find_values(path: str, body: Json, budget: json_paths.StepBudget) -> list[object]:
    nodes = json_paths.find_nodes(json_paths.compile_path(path), body, budget)
    return [node.value for node in nodes]


@each_row(
    ("path", "steps"),
    [
        ("$[*]", 1 + 10),
        ("$..*", 1 + 10),
        ("$[?1 == 2]", 1 + 10),  # no query in the filter
        ("$[?@ == 3]", 1 + 10 * 2 + 1),
        ("$[?@ == $[3]]", 1 + 10 * 2 + 2 + 1),  # a query from the root is evaluated once
        ("$[?count($[?@ == 3]) == 2]", 1 + 10 + (1 + 10 * 2 + 1)),
    ],
)
def test_each_visited_or_tested_value_is_a_step(path: str, steps: int) -> None:
    find_values(path, NUMBERS, json_paths.StepBudget(steps))

    with pytest.raises(JsonPathTooManySteps, match=f"exceeds the limit of {steps - 1} visited"):
        find_values(path, NUMBERS, json_paths.StepBudget(steps - 1))


def test_paths_share_the_steps_of_a_budget() -> None:
    budget = json_paths.StepBudget(21)
    find_values("$[*]", NUMBERS, budget)

    with pytest.raises(JsonPathTooManySteps):
        find_values("$[*]", NUMBERS, budget)


@each_row(
    ("path", "values"),
    [
        ("$[?@]", [0, False, None, "", [], "ab"]),  # exists, whatever its value is
        ("$[?!@]", []),
        ("$[?@ == $[1]]", [False]),
        ("$[?count(@) == 1]", [0, False, None, "", [], "ab"]),
        ("$[?count(@.*) == count($.none)]", [0, False, None, "", [], "ab"]),
        ("$[5][0:]", []),  # a string has no items
    ],
)
def test_filters_and_slices_follow_rfc_9535(path: str, values: list[object]) -> None:
    body: Json = [0, False, None, "", [], "ab"]

    assert find_values(path, body, json_paths.StepBudget()) == values


@each_row(
    "path",
    ["$[?@ == 1e400]", f"$[{'9' * 5_000}]", "$" + "[?@" * 400 + "]" * 400, "$" + "[0]" * 1000],
    ids=["a number", "an index", "nested filters", "segments"],
)
def test_a_path_that_is_too_large_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match=r"^it is too large$"):
        json_paths.compile_path(path)
