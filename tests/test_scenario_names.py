"""Field names and choices have one canonical spelling and a few aliases."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import fields

from case_tables import each_row
from llm_proxy.scenario.documents import document, names
from llm_proxy.scenario.documents.document import (
    MockSpec,
    ScenarioTurn,
    TextResponse,
    ToolCallsResponse,
    UsageSpec,
)


def field_names(struct: type) -> list[str]:
    return [item.name for item in fields(struct)]


def test_every_name_goes_to_camel_case_and_back() -> None:
    structs = [var for var in vars(document).values() if isinstance(var, type)]
    snake_names = {
        name
        for struct in structs
        if issubclass(struct, document.ScenarioStruct)
        for name in field_names(struct)
    }

    assert len(snake_names) > 50
    assert {names.to_snake_case(names.to_camel_case(item)) for item in snake_names} == snake_names


@each_row(
    ("struct", "written", "name"),
    [
        (ScenarioTurn, "expectedTopP", "expected_top_p"),
        (ScenarioTurn, "expected_top_p", "expected_top_p"),
        (ScenarioTurn, "failureRetryAfterMs", "failure_retry_after_ms"),
        (ToolCallsResponse, "toolCalls", "tool_calls"),
        (TextResponse, "toolCalls", None),
        (TextResponse, "tokenUsage", "usage"),
        (TextResponse, "token_usage", "usage"),
        (TextResponse, "reasoningTokens", None),
        (UsageSpec, "reasoningTokens", "reasoning"),
        (UsageSpec, "usage", None),
        (MockSpec, "thinkingMs", "thinking_ms"),
        (MockSpec, "ThinkingMs", None),
        (MockSpec, "thinking-ms", None),
    ],
)
def test_a_written_name_means_a_field_of_its_struct(
    struct: type[Struct], written: str, name: str | None
) -> None:
    assert names.fields_by_spelling(struct).get(written) == name


@each_row(
    ("written", "nearest"),
    [
        ("turnss", "turns"),
        ("system_prompt", "system_prompt_must_include"),
        ("systemPromptMustinclude", "systemPromptMustInclude"),
        ("descriptoin", "description"),
        ("zzz", None),
    ],
)
def test_what_was_probably_meant_is_named_in_the_spelling_that_was_used(
    written: str, nearest: str | None
) -> None:
    assert names.nearest_field_name(written, field_names(document.Scenario)) == nearest


@each_row(
    ("written", "word"),
    [("final-report", "final-report"), ("final_report", "final-report"),
     ("finalReport", "final-report"), ("text", "text"), ("final report", None)],
)  # fmt: skip
def test_a_word_may_be_spelled_as_names_are(written: str, word: str | None) -> None:
    assert names.canonical_choice(written, ["text", "final-report"]) == word


@each_row(("written", "nearest"), [("finalreport", "final-report"), ("txt", "text"), ("zzz", None)])
def test_the_nearest_word_is_found(written: str, nearest: str | None) -> None:
    assert names.nearest_choice(written, ["text", "final-report"]) == nearest
