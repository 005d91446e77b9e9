"""Every statement of the source documents is shown by a test, or has no counterpart here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import scenario_statements
from scenario_statements import (
    PAGE,
    build_page,
    marked_tests,
    statement_numbers,
    statement_tests,
    statements_without_equivalent,
)

SCENARIOS = (Path(__file__).parents[1] / "docs" / "reference" / "scenarios.md").read_text("utf-8")


def test_every_number_is_there_once() -> None:
    assert statement_numbers() == [
        *(f"000-{number:02}" for number in range(1, 108)),
        *(f"001-{number:02}" for number in range(1, 46)),
        *(f"004-{number:02}" for number in range(1, 19)),
    ]


@pytest.fixture(scope="module")
def shown_statements() -> dict[str, list[str]]:
    """The tests that show each statement."""
    return statement_tests()


def test_every_statement_is_shown_or_has_no_equivalent(
    shown_statements: dict[str, list[str]],
) -> None:
    assert [
        number
        for number in statement_numbers()
        if number not in shown_statements and number not in statements_without_equivalent()
    ] == []


def test_no_test_shows_an_unknown_number_or_one_without_equivalent(
    shown_statements: dict[str, list[str]],
) -> None:
    known = set(statement_numbers()) - set(statements_without_equivalent())

    assert {number: by for number, by in shown_statements.items() if number not in known} == {}


def test_the_page_is_what_the_markers_say(shown_statements: dict[str, list[str]]) -> None:
    assert PAGE.read_text("utf-8") == build_page(shown_statements), (
        "run: python tests/scenario_statements.py"
    )


def test_markers_of_tests_and_of_classes_are_found() -> None:
    source = """
@pytest.mark.shows("000-01", "000-02")
async def test_a(): ...

def test_b(): ...

@pytest.mark.shows("000-03")
class TestC:
    @pytest.mark.slow
    @pytest.mark.shows("000-04", "000-09 to 000-11")
    def test_d(self): ...
"""
    assert list(marked_tests(source)) == [
        ("test_a", ["000-01", "000-02"]),
        ("TestC", ["000-03"]),
        ("TestC::test_d", ["000-04", "000-09", "000-10", "000-11"]),
    ]


def test_a_statement_without_equivalent_has_a_reason() -> None:
    [row] = [line for line in build_page({}).splitlines() if line.startswith("| 004-18 |")]

    assert row == (
        "| 004-18 | the agent's `maxIterations` | no equivalent: limits the agent, not the mock |"
    )


@pytest.mark.shows("000-106")
def test_each_trouble_has_its_advice() -> None:
    advice = SCENARIOS.partition("## Troubleshooting")[2]

    assert re.findall(r"(?m)^- \*\*(.+?)\*\*:", advice) == [
        "Scenario not found",
        "Expected tools not available",
        "Scenario … has no turn N",
        "Expected temperature … but received undefined",
        "The application sees no failure",
        "Expected reasoning to remain enabled",
    ]
    assert scenario_statements.PAGE.name in SCENARIOS
