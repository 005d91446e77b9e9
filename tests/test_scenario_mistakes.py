"""Mistakes in scenario files are reported with their position and a correction."""

from __future__ import annotations

import pytest
import yaml

from case_tables import each_row
from invalid_scenarios import SYNTAX_ERRORS, VALIDATION_ERRORS, WARNINGS
from llm_proxy.scenario.documents.loading import parse_scenario_file
from llm_proxy.scenario.documents.mistakes import DocumentMistake, child_path, join_choices
from llm_proxy.scenario.documents.parsing import NodeComposer, yaml_events
from llm_proxy.yaml_composer import UnreadableDocument


def without_file_name(mistakes: tuple[DocumentMistake, ...]) -> tuple[str, ...]:
    assert all(str(mistake).startswith("s.yaml:") for mistake in mistakes)
    return tuple(str(mistake).removeprefix("s.yaml:") for mistake in mistakes)


def test_there_are_many_ways_to_be_wrong() -> None:
    assert len(SYNTAX_ERRORS) + len(VALIDATION_ERRORS) + len(WARNINGS) > 70


@each_row(("text", "message"), SYNTAX_ERRORS.values(), ids=SYNTAX_ERRORS)
def test_invalid_yaml_is_explained_in_plain_words(text: str, message: str) -> None:
    assert without_file_name(parse_scenario_file("s.yaml", text.encode()).mistakes) == (message,)


@each_row("text", [text for text, _ in SYNTAX_ERRORS.values()], ids=SYNTAX_ERRORS)
def test_errors_of_the_python_parser_are_explained_too(text: str) -> None:
    if "ud83d" in text:
        return  # this parser reads such a pair, and the composer refuses the halves
    with pytest.raises(UnreadableDocument) as caught:
        NodeComposer("s.yaml").compose_all(yaml_events(text, yaml.BaseLoader))
    assert "no valid YAML" not in caught.value.message


@each_row(("text", "messages"), VALIDATION_ERRORS.values(), ids=VALIDATION_ERRORS)
def test_every_mistake_of_a_file_is_reported(text: str, messages: tuple[str, ...]) -> None:
    loaded = parse_scenario_file("s.yaml", text.encode())

    assert without_file_name(loaded.mistakes) == messages
    assert all(mistake.fails_lint for mistake in loaded.mistakes)


@each_row(("text", "messages"), WARNINGS.values(), ids=WARNINGS)
def test_warnings_are_reported_and_the_file_is_loaded(text: str, messages: tuple[str, ...]) -> None:
    loaded = parse_scenario_file("s.yaml", text.encode())

    assert without_file_name(loaded.warnings) == messages
    assert not loaded.mistakes
    assert loaded.scenarios or loaded.mock


def test_lint_fails_over_an_unknown_status_alone() -> None:
    fails = {
        name: [
            warning.fails_lint for warning in parse_scenario_file("s.yaml", text.encode()).warnings
        ]
        for name, (text, _) in WARNINGS.items()
    }

    assert {name for name, flags in fails.items() if any(flags)} == {"an unknown status"}


def test_a_scenario_with_a_mistake_is_not_loaded_and_its_neighbours_are() -> None:
    text = "- {id: a, description: b, turns: []}\n- {id: c, turns: []}\n"

    assert [
        scenario.value.id for scenario in parse_scenario_file("s.yaml", text.encode()).scenarios
    ] == ["a"]


def test_what_comes_before_the_end_of_what_can_be_read_is_checked_too() -> None:
    text = "id: 1\ndescription: a\nturns: []\n---\nid: @\n"

    assert without_file_name(parse_scenario_file("s.yaml", text.encode()).mistakes) == (
        '1:5: $.id: expected text, got the number 1; write "1"',
        "5:5: $: this text starts with @; put the text in quotes",
    )


def test_a_message_shows_nothing_that_a_terminal_obeys() -> None:
    [mistake] = parse_scenario_file(
        "s\x1b.yaml", b'{id: "\\e[2J", "\\e": 1, description: a, turns: []}'
    ).mistakes

    assert str(mistake).isprintable()
    assert str(mistake).startswith("s\\x1b.yaml:1:15: $['\\x1b']: unknown field '\\x1b'")


def test_a_path_is_a_jsonpath() -> None:
    assert child_path("$", "turns") == "$.turns"
    assert child_path("$.turns", 1) == "$.turns[1]"
    assert child_path("$", "it's a\\b") == "$['it\\'s a\\\\b']"


def test_choices_are_joined_in_words() -> None:
    assert [join_choices("a"), join_choices("ab"), join_choices("abc")] == [
        "a",
        "a or b",
        "a, b or c",
    ]
