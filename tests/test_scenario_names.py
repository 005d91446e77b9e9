"""Fields and words have one canonical name, and a few other spellings."""

from __future__ import annotations

import pytest
from msgspec.structs import fields

from llm_proxy.scenario.documents import document, names
from llm_proxy.scenario.documents.document import (
    MockSpec,
    ScenarioTurn,
    TextResponse,
    ToolCallsResponse,
    UsageSpec,
)


def of(struct: type) -> list[str]:
    return [item.name for item in fields(struct)]


def test_every_name_goes_to_camel_case_and_back() -> None:
    structs = [var for var in vars(document).values() if isinstance(var, type)]
    spelled = {
        name
        for struct in structs
        if issubclass(struct, document.ScenarioStruct)
        for name in of(struct)
    }

    assert len(spelled) > 50
    assert {names.to_snake_case(names.to_camel_case(item)) for item in spelled} == spelled


@pytest.mark.parametrize(
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
    struct: type, written: str, name: str | None
) -> None:
    assert names.canonical_name(written, struct, of(struct)) == name


@pytest.mark.parametrize(
    ("written", "near"),
    [
        ("turnss", "turns"),
        ("system_prompt", "system_prompt_must_include"),
        ("systemPromptMustinclude", "systemPromptMustInclude"),
        ("descriptoin", "description"),
        ("zzz", None),
    ],
)
def test_what_was_probably_meant_is_named_in_the_spelling_that_was_used(
    written: str, near: str | None
) -> None:
    assert names.nearest_name(written, of(document.Scenario)) == near


@pytest.mark.parametrize(
    ("written", "word"),
    [("final-report", "final-report"), ("final_report", "final-report"),
     ("finalReport", "final-report"), ("text", "text"), ("final report", None)],
)  # fmt: skip
def test_a_word_may_be_spelled_as_names_are(written: str, word: str | None) -> None:
    assert names.canonical_choice(written, ["text", "final-report"]) == word


@pytest.mark.parametrize(
    ("written", "near"), [("finalreport", "final-report"), ("txt", "text"), ("zzz", None)]
)
def test_the_nearest_word_is_found(written: str, near: str | None) -> None:
    assert names.nearest_choice(written, ["text", "final-report"]) == near
