"""Content of scripted answers, in every dialect, streamed and whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from case_tables import each_row
from llm_proxy.errors import UsageError
from llm_proxy.pacing import InstantPace
from llm_proxy.scenario.scripting import json_stringify
from llm_proxy.turns import FinishReason, ToolCall, Usage
from scenario_server import (
    DIALECTS,
    REPORT,
    DecodedResponse,
    in_every_dialect,
    in_every_form,
    make_match_context,
    parse_scenario,
    part_tuples,
    report_fields,
    respond_to,
    scenario_document,
    serve_scenarios,
    single_turn_scenario,
    turn_of_response,
)

# Response kinds


@pytest.mark.shows("000-09", "000-66")
@each_row(
    "response",
    [
        {"kind": "tool-call", "toolCalls": [{"toolName": "a", "arguments": {}}]},
        {"kind": "final-report", "reportContent": "Done."},
        {"kind": "text", "assistantText": "Hi."},
    ],
)
def test_there_are_tool_calls_final_reports_and_texts(response: dict[str, Any]) -> None:
    [step] = parse_scenario(scenario_document({"response": response})).turns

    assert step.response.__struct_config__.tag == response["kind"]


@pytest.mark.shows("000-66", "000-67", "000-68", "000-69", "000-70")
@each_row(
    ("response", "reason"),
    [
        ({"kind": "speech"}, "unknown value 'speech'"),
        ({"kind": "tool-call"}, "missing field 'tool_calls'"),
        ({"kind": "tool-call", "toolCalls": [{"arguments": {}}]}, "missing field 'tool_name'"),
        ({"kind": "final-report"}, "missing field 'report_content'"),
        ({"kind": "text"}, "missing field 'assistant_text'"),
    ],
)
def test_a_missing_required_field_is_reported(response: dict[str, Any], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        parse_scenario(scenario_document({"response": response}))


@pytest.mark.shows("000-70", "000-92")
@in_every_dialect
@in_every_form
async def test_a_text_is_one_part_to_the_letter(tmp_path: Path, dialect: str, stream: bool) -> None:
    text = ' Two\n\nlines, ünïcødé 🌊 \u2028 and <b>"more"</b>. '
    async with serve_scenarios(
        tmp_path, single_turn_scenario("text", assistantText=text)
    ) as server:
        response = await server.send(dialect, stream=stream)

    assert part_tuples(response) == [("text", text)]


@pytest.mark.shows("000-104")
@in_every_dialect
async def test_a_large_answer_arrives_whole(tmp_path: Path, dialect: str) -> None:
    text = "A megabyte of it, at the least. " * 32_768
    async with serve_scenarios(
        tmp_path, single_turn_scenario("text", assistantText=text)
    ) as server:
        responses = [await server.send(dialect, stream=item) for item in (True, False)]

    assert [item.turn.text == text for item in responses] == [True, True]


# Tool calls


CALLS: Final = {
    "assistantText": "Before.",
    "toolCalls": [
        {"toolName": "look.up", "arguments": {"z": 1, "a": [1.0, 0.5, None]}},
        {"toolName": "b", "arguments": {}, "assistantText": "Second.", "callId": "mine"},
        {"toolName": "b", "arguments": {"deep": {"ä": '/<é\u2028"\\'}}, "assistantText": ""},
    ],
}
FIRST: Final = ("call", "call-1", "look.up", '{"z":1,"a":[1,0.5,null]}')
SECOND: Final = ("call", "mine", "b", "{}")
THIRD: Final = ("call", "call-3", "b", '{"deep":{"ä":"/<é\u2028\\"\\\\"}}')
IN_ORDER: Final = [("text", "Before."), FIRST, ("text", "Second."), SECOND, THIRD]
TEXTS_FIRST: Final = [("text", "Before.Second."), FIRST, SECOND, THIRD]


@pytest.mark.shows("000-67", "000-68", "000-71", "000-72", "000-73")
@in_every_dialect
@in_every_form
async def test_texts_and_calls_come_in_their_order_where_the_wire_has_one(
    tmp_path: Path, dialect: str, stream: bool
) -> None:
    async with serve_scenarios(tmp_path, single_turn_scenario("tool-call", **CALLS)) as server:
        response = await server.send(dialect, stream=stream)

    one_text = not stream and dialect in ("openai-chat", "ollama")
    assert part_tuples(response) == (TEXTS_FIRST if one_text else IN_ORDER)


@pytest.mark.shows("000-73")
async def test_input_is_a_string_for_openai_and_an_object_for_gemini_and_ollama(
    tmp_path: Path,
) -> None:
    async with serve_scenarios(tmp_path, single_turn_scenario("tool-call", **CALLS)) as server:
        responses = {
            dialect: (await server.send(dialect, stream=False)).json for dialect in DIALECTS
        }

    chat = responses["openai-chat"]["choices"][0]["message"]["tool_calls"][0]["function"]
    items = [
        item for item in responses["openai-responses"]["output"] if item["type"] == "function_call"
    ]
    parts = responses["gemini"]["candidates"][0]["content"]["parts"]
    blocks = [item for item in responses["anthropic"]["content"] if item["type"] == "tool_use"]
    ollama_calls = responses["ollama"]["message"]["tool_calls"]
    arguments = {"z": 1, "a": [1, 0.5, None]}
    assert chat["arguments"] == items[0]["arguments"] == FIRST[3]
    assert (
        next(item["functionCall"]["args"] for item in parts if "functionCall" in item) == arguments
    )
    assert ollama_calls[0]["function"]["arguments"] == blocks[0]["input"] == arguments


TWO_CALLS: Final = {"kind": "tool-call", "toolCalls": [{"toolName": "a"}, {"toolName": "b"}]}
AS_PARTS: Final = {
    "kind": "parts",
    "parts": [{"part": "tool-call", "toolName": "a"}, {"part": "tool-call", "toolName": "b"}],
}
AS_MOCK: Final = "{replies: [{tool_calls: [{name: a}, {name: b}]}, {tool_calls: [{name: a}]}]}"
WITH_OWN_ID: Final = {"kind": "tool-call", "toolCalls": [{"toolName": "a", "callId": "call-1"}]}


@pytest.mark.shows("000-72")
@in_every_dialect
async def test_no_two_turns_of_a_conversation_have_calls_of_one_id(
    tmp_path: Path, dialect: str
) -> None:
    """An agent that receives an id again takes the call for the earlier one."""
    responses = [TWO_CALLS, TWO_CALLS, AS_PARTS, WITH_OWN_ID]
    document = scenario_document(*({"response": item} for item in responses))
    async with serve_scenarios(tmp_path, document) as server:
        turns = [
            await server.send(dialect, texts=("refund", *("x", "y") * number))
            for number in range(len(responses))
        ]

    assert [[part[1] for part in part_tuples(item)] for item in turns] == [
        ["call-1", "call-2"],
        ["call-2-1", "call-2-2"],
        ["call-3-1", "call-3-2"],
        ["call-1"],
    ]


@pytest.mark.shows("000-72")
async def test_the_calls_of_a_mock_have_other_ids_in_each_turn_too(tmp_path: Path) -> None:
    async with serve_scenarios(tmp_path, mock=AS_MOCK, pace=InstantPace()) as server:
        first = await server.send()
        second = await server.send(texts=("refund", "x", "y"))

    assert [[part[1] for part in part_tuples(item)] for item in (first, second)] == [
        ["call-1", "call-2"],
        ["call-2-1"],
    ]


@pytest.mark.shows("000-73")
@each_row(
    ("value", "text"),
    [
        ({"b": 1, "a": 2}, '{"b":1,"a":2}'),
        ({"n": 1.0, "m": -0.5, "k": 1e3}, '{"n":1,"m":-0.5,"k":1000}'),
        ({"s": "é\u2028/<>&\x7f"}, '{"s":"é\u2028/<>&\x7f"}'),
        ({"s": '"\\\n\t\x01'}, '{"s":"\\"\\\\\\n\\t\\u0001"}'),
        ({"l": [True, None, {}]}, '{"l":[true,null,{}]}'),
    ],
)
def test_input_is_compact_in_order_and_escaped_no_more_than_it_must_be(
    value: Any, text: str
) -> None:
    assert json_stringify(value) == text


# Final reports


@pytest.mark.shows("000-69", "000-74", "000-75")
@in_every_dialect
@in_every_form
async def test_a_final_report_is_a_text_and_a_call(
    tmp_path: Path, dialect: str, stream: bool
) -> None:
    document = single_turn_scenario(
        "final-report",
        assistantText="Done.",
        status="partial",
        reportFormat="json",
        reportContent="# All\n",
        reportContentJson={"z": [1], "a": None},
    )
    async with serve_scenarios(tmp_path, document) as server:
        response = await server.send(dialect, stream=stream)

    report = (
        '{"status":"partial","report_format":"json","report_content":"# All\\n",'
        '"content_json":{"z":[1],"a":null}}'
    )
    assert part_tuples(response) == [
        ("text", "Done."),
        ("call", "agent-final-report", REPORT, report),
    ]


@pytest.mark.shows("000-74", "000-75")
def test_a_report_leaves_out_what_it_has_not_and_succeeds_unless_it_says_otherwise() -> None:
    report = '{"status":"success","report_content":"Fine."}'
    scripted = respond_to(
        single_turn_scenario("final-report", reportContent="Fine."), make_match_context("refund")
    )

    assert turn_of_response(scripted).parts == (ToolCall("agent-final-report", REPORT, report),)


@pytest.mark.shows("000-98")
async def test_a_scripted_failure_is_no_unsuccessful_session(tmp_path: Path) -> None:
    document = single_turn_scenario("final-report", reportContent="No.", status="failure")
    async with serve_scenarios(tmp_path, document) as server:
        response = await server.send()

    assert report_fields(response.turn) == {
        "said": "",
        "status": "failure",
        "report_content": "No.",
    }
    assert server.journal.failed_sessions == []


# Finish and usage


@pytest.mark.shows("000-76")
@each_row(
    ("kind", "fields", "finish"),
    [
        ("text", {"assistantText": "Hi."}, FinishReason.STOP),
        ("tool-call", CALLS, FinishReason.TOOL_CALLS),
        ("final-report", {"reportContent": "Fine."}, FinishReason.TOOL_CALLS),
        ("text", {"assistantText": "Hi.", "finishReason": "max_tokens"}, FinishReason.LENGTH),
        (
            "text",
            {"assistantText": "Hi.", "finishReason": "content-filter"},
            FinishReason.CONTENT_FILTER,
        ),
        ("tool-call", {**CALLS, "finishReason": "stop"}, FinishReason.STOP),
    ],
)
def test_an_answer_finishes_for_its_calls_or_as_it_says(
    kind: str, fields: dict[str, Any], finish: FinishReason
) -> None:
    assert (
        turn_of_response(
            respond_to(single_turn_scenario(kind, **fields), make_match_context("refund"))
        ).finish
        is finish
    )


@pytest.mark.shows("000-76")
@in_every_form
async def test_each_dialect_has_its_own_words_for_a_finish(tmp_path: Path, stream: bool) -> None:
    documents = (
        single_turn_scenario("text", assistantText="Hi.") | {"id": "text"},
        single_turn_scenario("tool-call", **CALLS) | {"id": "calls"},
        single_turn_scenario("text", assistantText="Hi.", finishReason="length") | {"id": "length"},
    )
    async with serve_scenarios(tmp_path, *documents) as server:
        words = {
            dialect: [
                (await server.send(dialect, texts=(document["id"],), stream=stream)).turn.finish_raw
                for document in documents
            ]
            for dialect in DIALECTS
        }

    assert words == {
        "openai-chat": ["stop", "tool_calls", "length"],
        "openai-responses": ["completed", "completed", "max_output_tokens"],
        "anthropic": ["end_turn", "tool_use", "max_tokens"],
        "gemini": ["STOP", "STOP", "MAX_TOKENS"],
        "ollama": ["stop", "stop", "length"],
    }


@pytest.mark.shows("000-77", "000-78")
@each_row(
    ("fields", "usage"),
    [
        ({}, Usage(64, 32, 96)),
        ({"usage": {}}, Usage(64, 32, 96)),
        ({"usage": {"input": 7}}, Usage(7, 32, 39)),
        ({"usage": {"output": 7, "total": 1000}}, Usage(64, 7, 1000)),
        (
            {"tokenUsage": {"inputTokens": 1, "outputTokens": 2, "totalTokens": 4}},
            Usage(1, 2, 4),
        ),
    ],
)
def test_usage_is_as_scripted_and_has_defaults(fields: dict[str, Any], usage: Usage) -> None:
    document = single_turn_scenario("text", assistantText="Hi.", **fields)

    assert turn_of_response(respond_to(document, make_match_context("refund"))).usage == usage


@pytest.mark.shows("000-77", "000-78", "000-105")
@in_every_form
async def test_usage_stands_in_each_dialects_own_fields(tmp_path: Path, stream: bool) -> None:
    document = single_turn_scenario("text", assistantText="Hi.", usage={"input": 10, "output": 5})
    async with serve_scenarios(tmp_path, document) as server:
        responses = {dialect: await server.send(dialect, stream=stream) for dialect in DIALECTS}
        without_usage = await server.send("openai-chat", more={"stream_options": None})

    documents = {
        dialect: _usage_document(received, stream=stream) for dialect, received in responses.items()
    }
    response = documents["openai-responses"]
    response = response["response"] if stream else response
    assert _has_counts(
        documents["openai-chat"]["usage"], "prompt_tokens", "completion_tokens", "total_tokens"
    )
    assert _has_counts(response["usage"], "input_tokens", "output_tokens", "total_tokens")
    assert _has_counts(documents["anthropic"]["usage"], "input_tokens", "output_tokens")
    assert "total_tokens" not in documents["anthropic"]["usage"]
    counts = documents["gemini"]["usageMetadata"]
    assert _has_counts(counts, "promptTokenCount", "candidatesTokenCount", "totalTokenCount")
    assert _has_counts(documents["ollama"], "prompt_eval_count", "eval_count")
    assert without_usage.turn.usage is None


def _usage_document(response: DecodedResponse, *, stream: bool) -> Any:
    """Return the document that contains the usage."""
    if not stream:
        return response.json
    return [
        event for event in response.events if event != "[DONE]" and "message_stop" not in str(event)
    ][-1]


def _has_counts(counts: Any, *names: str) -> bool:
    return [counts[name] for name in names] == [10, 5, 15][: len(names)]


@pytest.mark.shows("000-79")
async def test_options_of_the_call_leave_a_scripted_turn_as_it_is(tmp_path: Path) -> None:
    schema = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}}
    options = {
        "max_tokens": 1,
        "stop": ["e"],
        "n": 3,
        "response_format": schema,
        "tool_choice": "none",
    }
    async with serve_scenarios(tmp_path, single_turn_scenario("tool-call", **CALLS)) as server:
        bare, whole, streamed = [
            await server.send(stream=stream, more=fields)
            for stream, fields in ((False, {}), (False, options), (True, options))
        ]

    assert part_tuples(bare) == part_tuples(whole) == TEXTS_FIRST
    assert part_tuples(streamed) == IN_ORDER
    assert bare.turn.finish is whole.turn.finish is streamed.turn.finish is FinishReason.TOOL_CALLS
    assert bare.turn.usage == whole.turn.usage == streamed.turn.usage == Usage(64, 32, 96)
