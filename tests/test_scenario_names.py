"""Fields and words have one canonical name, and a few other spellings."""

from __future__ import annotations

import pytest
from msgspec.structs import fields

from llm_proxy.scenario.documents import document, names
from llm_proxy.scenario.documents.document import Mock, Step, TextAnswer, ToolCalls, Usage


def of(struct: type) -> list[str]:
    return [it.name for it in fields(struct)]


def test_every_name_goes_to_camel_case_and_back() -> None:
    structs = [it for it in vars(document).values() if isinstance(it, type)]
    spelled = {name for it in structs if issubclass(it, document.Said) for name in of(it)}

    assert len(spelled) > 50
    assert {names.snake(names.camel(it)) for it in spelled} == spelled


@pytest.mark.parametrize(
    ("struct", "written", "name"),
    [
        (Step, "expectedTopP", "expected_top_p"),
        (Step, "expected_top_p", "expected_top_p"),
        (Step, "failureRetryAfterMs", "failure_retry_after_ms"),
        (ToolCalls, "toolCalls", "tool_calls"),
        (TextAnswer, "toolCalls", None),
        (TextAnswer, "tokenUsage", "usage"),
        (TextAnswer, "token_usage", "usage"),
        (TextAnswer, "reasoningTokens", None),
        (Usage, "reasoningTokens", "reasoning"),
        (Usage, "usage", None),
        (Mock, "thinkingMs", "thinking_ms"),
        (Mock, "ThinkingMs", None),
        (Mock, "thinking-ms", None),
    ],
)
def test_a_written_name_means_a_field_of_its_struct(
    struct: type, written: str, name: str | None
) -> None:
    assert names.canonical(written, struct, of(struct)) == name


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
    assert names.nearest(written, of(document.Scenario)) == near


@pytest.mark.parametrize(
    ("written", "word"),
    [("final-report", "final-report"), ("final_report", "final-report"),
     ("finalReport", "final-report"), ("text", "text"), ("final report", None)],
)  # fmt: skip
def test_a_word_may_be_spelled_as_names_are(written: str, word: str | None) -> None:
    assert names.word(written, ["text", "final-report"]) == word


@pytest.mark.parametrize(
    ("written", "near"), [("finalreport", "final-report"), ("txt", "text"), ("zzz", None)]
)
def test_the_nearest_word_is_found(written: str, near: str | None) -> None:
    assert names.nearest_word(written, ["text", "final-report"]) == near
