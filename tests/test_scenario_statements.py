"""Every statement of the source documents is shown by a test, or has no counterpart here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import scenario_statements
from scenario_statements import (
    MIN_EXAMPLES,
    PAGE,
    TESTS,
    build_page,
    example_counts,
    marked_tests,
    property_tags,
    statement_numbers,
    statement_tests,
    statements,
    statements_without_equivalent,
)

SCENARIOS = (Path(__file__).parents[1] / "docs" / "reference" / "scenarios.md").read_text("utf-8")


def test_every_number_is_there_once() -> None:
    assert statement_numbers() == [
        *(f"000-{number:02}" for number in range(1, 108)),
        *(f"001-{number:02}" for number in range(1, 46)),
        *(f"002-{number:02}" for number in range(1, 70)),
        *(f"002-P{number:02}" for number in range(1, 36)),
        *(f"003-{number:02}" for number in range(1, 34)),
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
    @pytest.mark.shows("000-04", "000-09 to 000-11", "002-P09 to 002-P10")
    def test_d(self): ...
"""
    assert list(marked_tests(source)) == [
        ("test_a", ["000-01", "000-02"]),
        ("TestC", ["000-03"]),
        ("TestC::test_d", ["000-04", "000-09", "000-10", "000-11", "002-P09", "002-P10"]),
    ]


# The properties of document 002


def sources_with_properties() -> dict[str, str]:
    """The files that show properties, by name."""
    sources = {path.name: path.read_text("utf-8") for path in sorted(TESTS.glob("test_*.py"))}
    del sources[Path(__file__).name]
    return {name: source for name, source in sources.items() if "002-P" in source}


@pytest.mark.shows("002-68")
def test_every_property_has_enough_examples() -> None:
    counts = {
        f"{name}::{test} {number}": count
        for name, source in sources_with_properties().items()
        for test, number, count in example_counts(source)
    }

    assert counts
    assert {test: count for test, count in counts.items() if count < MIN_EXAMPLES} == {}


@pytest.mark.shows("002-68")
def test_every_property_is_tagged_with_the_text_of_the_document() -> None:
    for name, source in sources_with_properties().items():
        tags = dict(property_tags(source))
        properties = {number for _, number, _ in example_counts(source)}

        assert tags == {
            number: statements()["002"]["says"][number.removeprefix("002-")]
            for number in properties
        }, name


def test_tags_and_examples_are_found() -> None:
    source = """
EXAMPLES: Final = settings(max_examples=200)

@pytest.mark.shows("002-P01", "002-12")
@EXAMPLES
def test_a():
    # Feature: stage-02-core-provider, Property 1: For any provider,
    # registering it.
    # Feature: stage-02-core-provider, Property 2: Another.
    ...

# Feature: stage-02-core-provider, Property 22: Short.
@pytest.mark.shows("002-P22")
@settings(max_examples=100)
def test_b(): ...

@pytest.mark.shows("002-P03")
def test_c(): ...
"""
    assert [*property_tags(source)] == [
        ("002-P01", "For any provider, registering it."),
        ("002-P02", "Another."),
        ("002-P22", "Short."),
    ]
    assert [*example_counts(source)] == [
        ("test_a", "002-P01", 200),
        ("test_b", "002-P22", 100),
        ("test_c", "002-P03", 0),
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
