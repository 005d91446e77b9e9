"""Scenario files load to the same scenarios in every supported notation."""

from __future__ import annotations

import copy
from typing import Any, Final

import msgspec
import orjson
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from case_tables import each_row
from full_scenario import DOCUMENT, MOCK, SCENARIO
from llm_proxy.scenario.documents import names
from llm_proxy.scenario.documents.document import (
    FinalReportResponse,
    MockCall,
    MockReply,
    MockSpec,
    Scenario,
    ScenarioDocument,
    ScenarioTurn,
    TextResponse,
    ToolCallSpec,
    ToolCallsResponse,
    UsageSpec,
)
from llm_proxy.scenario.documents.loading import (
    MAX_FILE_BYTES,
    LoadedScenarios,
    merge_loaded,
    parse_scenario_file,
)
from llm_proxy.scenario.documents.mistakes import Located

LAST_SCENARIO: Final = "{id: c, description: d, turns: []}\r\n"
EMPTY: Final = {"id": "a", "description": "b", "turns": []}


def load_value(value: Any, file: str = "s.json") -> LoadedScenarios:
    """Load a file with this value; assert that it has no mistakes."""
    loaded = parse_scenario_file(file, orjson.dumps(value))
    assert [str(mistake) for mistake in loaded.mistakes] == []
    return loaded


def yaml_scenario(text: str) -> Scenario:
    loaded = parse_scenario_file("s.yaml", text.encode())
    assert (loaded.mistakes, loaded.warnings) == ((), ())
    [located] = loaded.scenarios
    return located.value


def test_every_field_loads_as_msgspec_reads_it() -> None:
    loaded = load_value(DOCUMENT)
    expected = msgspec.convert(DOCUMENT, ScenarioDocument)

    assert tuple(scenario.value for scenario in loaded.scenarios) == expected.scenarios
    assert loaded.mock == expected.mock
    assert loaded.warnings == ()


FREE_FORM_FIELDS: Final = frozenset(
    (
        "arguments", "args", "failure_error", "provider_metadata", "report_content_json", "values",
        "equals", "action_input",
    )
)  # fmt: skip
"""Fields whose objects have free-form names."""


def with_camel_case_names(value: Any, *, by_path: bool = False) -> Any:
    """Convert the names of a document to camelCase."""
    match value:
        case dict():
            return {
                name if by_path else names.to_camel_case(name): inner
                if name in FREE_FORM_FIELDS
                else with_camel_case_names(inner, by_path=name == "json")
                for name, inner in value.items()
            }
        case list():
            return [with_camel_case_names(item) for item in value]
        case _:
            return value


def test_camel_case_loads_as_the_same() -> None:
    document = with_camel_case_names(DOCUMENT)

    assert "systemPromptMustInclude" in document["scenarios"][0]
    assert [scenario.value for scenario in load_value(document).scenarios] == [
        scenario.value for scenario in load_value(DOCUMENT).scenarios
    ]
    assert load_value(document).mock == load_value(DOCUMENT).mock


@pytest.mark.shows("000-04 to 000-21", "000-67 to 000-69", "000-77", "000-103")
def test_the_documents_of_the_scripted_provider_load_unchanged() -> None:
    """The document uses the names of the scripted provider's interfaces."""
    scenario = yaml_scenario(
        """
        id: run-test-1
        description: A tool call, then a report.
        systemPromptMustInclude: ['You are']
        turns:
          - turn: 1
            response:
              kind: 'tool-call'
              assistantText: Let me look.
              toolCalls:
                - toolName: test__test
                  arguments: { text: phase-1 }
                - { toolName: test__test, callId: call-7, assistantText: Once more., arguments: {} }
              tokenUsage: { inputTokens: 10, outputTokens: 5, totalTokens: 15 }
            expectedTools: [test__test]
            allowMissingTools: false
            expectedTemperature: 0.42
            expectedTopP: 0.66
            expectedReasoning: 'disabled'
            failuresBeforeSuccess: 1
            failureThrows: true
            failureStatus: model_error
            failureMessage: Simulated fatal error.
            failureRetryable: false
            failureRetryAfterMs: 10
            failureError: { statusCode: 502 }
          - turn: 2
            response:
              kind: 'final-report'
              reportContent: '# Done'
              reportFormat: markdown
              status: success
              reportContentJson: { toolName: 1 }
        """
    )

    assert scenario == Scenario(
        id="run-test-1",
        description="A tool call, then a report.",
        system_prompt_must_include=("You are",),
        turns=(
            ScenarioTurn(
                turn=1,
                response=ToolCallsResponse(
                    assistant_text="Let me look.",
                    tool_calls=(
                        ToolCallSpec(tool_name="test__test", arguments={"text": "phase-1"}),
                        ToolCallSpec(tool_name="test__test", call_id="call-7",
                             assistant_text="Once more."),
                    ),
                    usage=UsageSpec(input=10, output=5, total=15),
                ),
                expected_tools=("test__test",),
                expected_temperature=0.42,
                expected_top_p=0.66,
                expected_reasoning="disabled",
                failures_before_success=1,
                failure_throws=True,
                failure_status="model_error",
                failure_message="Simulated fatal error.",
                failure_retryable=False,
                failure_retry_after_ms=10,
                failure_error={"statusCode": 502},
            ),
            ScenarioTurn(
                turn=2,
                response=FinalReportResponse(
                    report_content="# Done",
                    report_format="markdown",
                    report_content_json={"toolName": 1},
                ),
            ),
        ),
    )  # fmt: skip


@pytest.mark.shows("004-06")
def test_the_example_of_the_mock_loads_unchanged() -> None:
    loaded = parse_scenario_file(
        "s.yaml",
        b"""
        mock:
          replies:
            - toolCalls: [{ id: '1', name: 'lookup', args: { id: 42 } }]
            - { content: 'Found it: refunds take 3 business days.' }
          thinkingMs: [3000, 8000]
          chunkDelayMs: [30, 80]
          usage: { input: 1, cacheRead: 2, cacheWrite: 3 }
          stopReason: stop
        """,
    )

    assert loaded.mistakes == ()
    assert loaded.mock == MockSpec(
        replies=(
            MockReply(tool_calls=(MockCall(id="1", name="lookup", args={"id": 42}),)),
            MockReply(content="Found it: refunds take 3 business days."),
        ),
        thinking_ms=(3000, 8000),
        chunk_delay_ms=(30, 80),
        usage=UsageSpec(input=1, cache_read=2, cache_write=3),
        stop_reason="stop",
    )


@each_row("kind", ["tool-call", "tool_call", "toolCall"])
def test_a_kind_may_be_written_as_names_are(kind: str) -> None:
    answer = {"kind": kind, "toolCalls": [{"toolName": "a"}]}
    loaded = load_value(EMPTY | {"turns": [{"turn": 1, "response": answer}]})

    assert loaded.scenarios[0].value.turns[0].response == ToolCallsResponse(
        tool_calls=(ToolCallSpec(tool_name="a"),)
    )


@each_row(
    ("written", "usage"),
    [
        ({"inputTokens": 1, "output_tokens": 2}, UsageSpec(input=1, output=2)),
        ({"promptTokens": 1, "completion_tokens": 2, "total": 3},
         UsageSpec(input=1, output=2, total=3)),
        ({"cachedInputTokens": 4, "reasoningTokens": 5}, UsageSpec(cache_read=4, reasoning=5)),
        ({"cache_read_input_tokens": 6, "cacheCreationInputTokens": 7},
         UsageSpec(cache_read=6, cache_write=7)),
        ({"input": None}, UsageSpec()),
    ],
)  # fmt: skip
def test_tokens_may_be_named_as_providers_name_them(written: Any, usage: UsageSpec) -> None:
    answer = {"kind": "text", "assistant_text": "", "tokenUsage": written}
    loaded = load_value(EMPTY | {"turns": [{"turn": 1, "response": answer}]})

    assert loaded.scenarios[0].value.turns[0].response == TextResponse(
        assistant_text="", usage=usage
    )


def test_a_whole_number_may_have_a_point() -> None:
    step = {"turn": 1.0, "response": {"kind": "text", "assistant_text": ""}}

    assert load_value(EMPTY | {"turns": [step]}).scenarios[0].value.turns[0].turn == 1


@each_row(
    "text",
    [
        "- {id: a, description: b, turns: []}\n- {id: c, description: d, turns: []}\n",
        "id: a\ndescription: b\nturns: []\n---\nid: c\ndescription: d\nturns: []\n---\n",
        "scenarios: [{id: a, description: b, turns: []}]\n---\nid: c\ndescription: d\nturns: []\n",
        "\ufeff%YAML 1.2\r\n---\r\n- {id: a, description: b, turns: []}\r\n---\r\n" + LAST_SCENARIO,
    ],
    ids=["list", "documents", "both", "byte order mark and CRLF"],
)
def test_a_file_may_hold_several_scenarios(text: str) -> None:
    loaded = parse_scenario_file("s.yaml", text.encode())

    assert [scenario.value.id for scenario in loaded.scenarios] == ["a", "c"]
    assert loaded.mistakes == ()


def test_each_scenario_has_its_position() -> None:
    loaded = parse_scenario_file(
        "d/s.yaml", b"# first\nscenarios:\n  - id: a\n    description: b\n    turns: []\n"
    )

    assert loaded.scenarios == (
        Located(Scenario(id="a", description="b", turns=()), "d/s.yaml", 3, 5, "$.scenarios[0]"),
    )


def test_a_document_may_name_its_schema() -> None:
    assert load_value({"$schema": "schema.json"} | EMPTY).scenarios[0].value.id == "a"
    assert load_value({"$schema": "schema.json", "mock": MOCK}).mock is not None


@each_row("content", [b"", b"# nothing yet\n", b"---\n---\n", b"\xef\xbb\xbf", b"~"])
def test_an_empty_file_is_a_warning(content: bytes) -> None:
    loaded = parse_scenario_file("s.yaml", content)

    assert [str(warning) for warning in loaded.warnings] == [
        "s.yaml: the file contains no scenario"
    ]
    assert loaded.mistakes == ()


@each_row(
    ("content", "message"),
    [
        (
            b"id: a\nb: \xe9\n",
            "s.yaml:2:4: $: the byte 0xe9 is not valid UTF-8; save the file as UTF-8",
        ),
        (b"\xff\xfea\0", "s.yaml:1:1: $: the byte 0xff is not valid UTF-8; save the file as UTF-8"),
        (b"#" * (MAX_FILE_BYTES + 1), "s.yaml: the file is larger than 16 MiB; split it"),
    ],
    ids=["Latin-1", "UTF-16", "too large"],
)  # fmt: skip
def test_an_unreadable_file_is_reported(content: bytes, message: str) -> None:
    assert [str(mistake) for mistake in parse_scenario_file("s.yaml", content).mistakes] == [
        message
    ]


def test_ids_that_two_files_share_are_reported_with_both_places() -> None:
    first = parse_scenario_file("a.yaml", b"\nid: x\ndescription: b\nturns: []\n")
    second = parse_scenario_file("b.yaml", b"mock: {}\n---\nid: x\ndescription: c\nturns: []\n")
    third = parse_scenario_file("c.yaml", b"mock: {}\n")

    loaded = merge_loaded([first, second, third])

    assert [str(mistake) for mistake in loaded.mistakes] == [
        'b.yaml:3:1: $: duplicate scenario id "x"; the first one is at a.yaml:2',
        ("c.yaml:1:7: $.mock: duplicate mock; the first one is at b.yaml:1"),
    ]
    assert [scenario.value.description for scenario in loaded.scenarios] == ["b", "c"]


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of every value in a document."""
    if not isinstance(value, dict | list):
        return [path]
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    return [path, *(one for step, each in inner for one in paths(each, (*path, step)))]


ODD: Final[st.SearchStrategy[Any]] = st.sampled_from(
    [None, True, 0, -1, 1.5, "", "no", "5", [], ["a"], {}, {"a": 1}, [[]], {"text": "a"}, "made"]
)


@given(st.sampled_from(paths(DOCUMENT)[1:]), ODD)
def test_loading_accepts_exactly_what_msgspec_accepts(path: tuple[Any, ...], odd: Any) -> None:
    document = copy.deepcopy(DOCUMENT)
    holder: Any = document
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = odd

    loaded = parse_scenario_file("s.json", orjson.dumps(document))

    try:
        expected = msgspec.convert(document, ScenarioDocument)
    except msgspec.ValidationError:
        assert loaded.mistakes
    else:
        assert loaded.mistakes or (
            tuple(scenario.value for scenario in loaded.scenarios) == expected.scenarios
            and loaded.mock == expected.mock
        )


@given(
    st.binary(max_size=60) | st.text(max_size=40).map(str.encode),
    st.sampled_from([".yaml", ".json"]),
)
def test_no_file_brings_loading_down(content: bytes, suffix: str) -> None:
    for mistake in parse_scenario_file("s" + suffix, content).mistakes:
        assert str(mistake).startswith(f"s{suffix}:")
        assert str(mistake).isprintable()


def test_a_scenario_written_by_another_yaml_writer_is_the_same() -> None:
    text = yaml.safe_dump(SCENARIO, sort_keys=False)

    assert yaml_scenario(text) == msgspec.convert(SCENARIO, Scenario)
