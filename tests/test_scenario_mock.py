"""A mock answers every request, by the options of document 004."""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from case_tables import each_row
from llm_proxy.pacing import InstantPace
from llm_proxy.scenario import scripting
from llm_proxy.scenario.documents import loading
from llm_proxy.scenario.documents.document import MockReply, MockSpec
from llm_proxy.scenario.scripted_response import ReportScriptExhausted, ScriptedResponse
from llm_proxy.turns import FinishReason, Text, ToolCall, Turn, Usage
from scenario_server import (
    DIALECTS,
    in_every_dialect,
    in_every_form,
    make_match_context,
    part_tuples,
    scenario_document,
    serve_scenarios,
    text_turn,
    turn_of_response,
)


def read(options: dict[str, Any]) -> MockSpec:
    return loading.parse_struct(MockSpec, "--mock", json.dumps(options))


def scripted_mock(number: int = 1, text: str = "Hi", /, **options: Any) -> ScriptedResponse:
    """Return the response to call `number` of a mock with these options."""
    return scripting.mock_response(read(options), number, make_match_context(text))


def mock_turn(*args: Any, **options: Any) -> Turn:
    return turn_of_response(scripted_mock(*args, **options))


# Reply content


@pytest.mark.shows("004-01", "004-10")
@in_every_dialect
@in_every_form
async def test_without_options_the_last_message_is_echoed_at_once_and_unchanged(
    tmp_path: Path, dialect: str, stream: bool
) -> None:
    messages = ("First.", "Yes?", " Grüße\n\n🌊  ")
    async with serve_scenarios(tmp_path, mock="{}", pace=InstantPace()) as server:
        response = await server.send(dialect, texts=messages, stream=stream)

    assert part_tuples(response) == [("text", " Grüße\n\n🌊  ")]
    assert server.last_simulated.source == "mock"


@pytest.mark.shows("004-01")
def test_every_option_is_optional_and_fixed() -> None:
    spec = read({})

    assert spec == MockSpec()
    with pytest.raises(AttributeError):
        spec.name = "other"  # type: ignore[misc] # the test shows that it cannot be set


@pytest.mark.shows("004-01")
@each_row("where", ["a file", "the command line"])
async def test_a_mock_stands_in_a_file_or_on_the_command_line(tmp_path: Path, where: str) -> None:
    path = tmp_path / "mocks.yaml"
    path.write_text("scenarios: []\nmock: {reply: Of the file.}\n")
    option = "{reply: Of the option.}" if where == "the command line" else ""
    async with serve_scenarios(tmp_path, scenarios=path, mock=option) as server:
        response = await server.send()

    assert response.turn.text == ("Of the option." if option else "Of the file.")


@pytest.mark.shows("004-01")
async def test_a_mock_answers_what_no_scenario_does(tmp_path: Path) -> None:
    async with serve_scenarios(
        tmp_path, scenario_document(text_turn("Scripted.")), mock="{reply: Mocked.}"
    ) as server:
        texts = [(await server.send(texts=(item,))).turn.text for item in ("refund", "else")]

    assert texts == ["Scripted.", "Mocked."]


@pytest.mark.shows("004-02")
async def test_a_mock_is_called_by_its_name(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "llm_proxy")
    async with serve_scenarios(tmp_path, mock="{name: helper, replies: [One.]}") as server:
        await server.send()
        exhausted = await server.send(stream=False)

    assert server.entries[0].origin == "mock helper"
    assert "POST /v1/chat/completions: mock helper" in caplog.messages
    assert "The mock 'helper' has 1 reply" in exhausted.json["error"]["message"]
    assert scripted_mock().origin == "mock"


@pytest.mark.shows("004-03")
def test_a_reply_is_the_text_of_every_answer() -> None:
    assert [mock_turn(item, reply="Always.").text for item in (1, 2, 9)] == ["Always."] * 3
    assert mock_turn(reply="").parts == ()


FULL_REPLY: Final = {
    "content": "Looking.",
    "toolCalls": [{"id": "1", "name": "lookup", "args": {"id": 42}}],
    "usage": {"input": 7, "output": 9},
    "stopReason": "length",
}


@pytest.mark.shows("004-03", "004-05")
@each_row(
    "options",
    [{"reply": FULL_REPLY}, {"replies": [FULL_REPLY]}, {"reply": FULL_REPLY, "stopReason": "stop"}],
)
def test_a_reply_may_be_an_object_wherever_it_may_be_a_text(options: dict[str, Any]) -> None:
    turn = mock_turn(**options)

    assert turn.parts == (Text("Looking."), ToolCall("1", "lookup", '{"id":42}'))
    assert (turn.finish, turn.usage) == (FinishReason.LENGTH, Usage(7, 9, 16))


@pytest.mark.shows("004-03")
@in_every_dialect
@in_every_form
async def test_an_object_as_reply_is_sent_for_every_request(
    tmp_path: Path, dialect: str, stream: bool
) -> None:
    option = json.dumps({"reply": EXAMPLE["replies"][0]})
    async with serve_scenarios(tmp_path, mock=option, pace=InstantPace()) as server:
        responses = [await server.send(dialect, stream=stream) for _ in range(2)]

    assert [part_tuples(item) for item in responses] == [[("call", "1", "lookup", '{"id":42}')]] * 2


EXAMPLE: Final = {
    "replies": [
        {"toolCalls": [{"id": "1", "name": "lookup", "args": {"id": 42}}]},
        {"content": "Found it: refunds take 3 business days."},
    ]
}


@pytest.mark.shows("004-04", "004-05", "004-06")
@in_every_dialect
@in_every_form
async def test_the_documented_example_works(tmp_path: Path, dialect: str, stream: bool) -> None:
    async with serve_scenarios(tmp_path, mock=json.dumps(EXAMPLE), pace=InstantPace()) as server:
        first, second = [await server.send(dialect, stream=stream) for _ in range(2)]

    assert part_tuples(first) == [("call", "1", "lookup", '{"id":42}')]
    assert part_tuples(second) == [("text", "Found it: refunds take 3 business days.")]


@pytest.mark.shows("004-04")
async def test_replies_are_counted_by_calls_for_each_session(tmp_path: Path) -> None:
    async with serve_scenarios(tmp_path, mock="{replies: [One., Two., Three.]}") as server:
        long_history = ("Hi", *("x", "y") * 5)
        texts = [
            (await server.send(session=session, texts=messages)).turn.text
            for session, messages in (
                ("a", long_history),
                ("b", ("Hi",)),
                ("a", ("Hi",)),
                ("b", ()),
            )
        ]
        together = await asyncio.gather(*(server.send(session="c") for _ in range(3)))
        await server.request_proxy_page("sessions/a/reset", method="POST")
        again = (await server.send(session="a")).turn.text

    assert texts == ["One.", "One.", "Two.", "Two."]
    assert sorted(item.turn.text for item in together) == ["One.", "Three.", "Two."]
    assert again == "One."


@pytest.mark.shows("004-04")
async def test_a_failure_that_a_scenario_simulates_uses_up_no_reply(tmp_path: Path) -> None:
    failing_scenario = scenario_document(text_turn(failuresBeforeSuccess=1))
    async with serve_scenarios(tmp_path, failing_scenario, mock="{replies: [One.]}") as server:
        failed = await server.send()
        response = await server.send(texts=("else",))

    assert (failed.raw_response.status, response.turn.text) == (500, "One.")


@pytest.mark.shows("004-05")
def test_a_reply_is_partial_and_what_is_left_out_is_empty() -> None:
    both = {"content": "Hm.", "tool_calls": [{"name": "a"}, {"name": "b", "args": {"x": 1.0}}]}
    replies = ["A text.", {}, both, {"content": "x", "stopReason": "length", "usage": {"input": 1}}]

    turns = [mock_turn(item, replies=replies) for item in (1, 2, 3, 4)]

    assert [item.parts for item in turns] == [
        (Text("A text."),),
        (),
        (Text("Hm."), ToolCall("call-1", "a", "{}"), ToolCall("call-2", "b", '{"x":1}')),
        (Text("x"),),
    ]
    assert (turns[3].finish, turns[3].usage) == (FinishReason.LENGTH, Usage(1, 1, 2))


@pytest.mark.shows("004-07")
@in_every_dialect
@in_every_form
async def test_one_call_too_many_is_an_error_before_any_stream(
    tmp_path: Path, dialect: str, stream: bool
) -> None:
    async with serve_scenarios(
        tmp_path, mock='{replies: ["One.", "Two."]}', pace=InstantPace()
    ) as server:
        responses = [await server.send(dialect, stream=stream) for _ in range(4)]

    assert [item.raw_response.status for item in responses] == [200, 200, 424, 424]
    raw = responses[3].raw_response
    assert (raw.header("x-should-retry"), raw.header("x-llm-proxy-error")) == (
        "false", "script_exhausted",
    )  # fmt: skip
    reason = (
        "The mock 'mock' has 2 replies, but this is request 4; add a reply or send fewer requests."
    )
    failure = responses[3].turn.failure
    assert failure is not None
    assert failure.message == reason
    assert [item.reason for item in server.journal.failed_sessions][1:] == [reason]


@pytest.mark.shows("004-08")
def test_replies_come_before_a_reply_and_an_empty_list_is_used_up_at_once() -> None:
    assert mock_turn(replies=["Mine."], reply="Not this.").text == "Mine."
    empty = scripted_mock(replies=[], reply="Not this.")

    assert isinstance(empty.scripted_action, ReportScriptExhausted)
    assert "has 0 replies, but this is request 1" in empty.scripted_action.message


# Stop reason and usage


@pytest.mark.shows("004-15")
@each_row(
    ("options", "finish"),
    [
        ({}, FinishReason.STOP),
        ({"stopReason": "length"}, FinishReason.LENGTH),
        ({"stopReason": "end_turn"}, FinishReason.STOP),
        (EXAMPLE, FinishReason.TOOL_CALLS),
        (EXAMPLE | {"stopReason": "stop"}, FinishReason.STOP),
        ({"replies": [{"content": "x", "stopReason": "max_tokens"}]}, FinishReason.LENGTH),
        ({"replies": [{"stopReason": "length"}], "stopReason": "stop"}, FinishReason.LENGTH),
    ],
)
def test_an_answer_stops_as_the_mock_says_or_for_its_calls(
    options: dict[str, Any], finish: FinishReason
) -> None:
    assert mock_turn(**options).finish is finish


@pytest.mark.shows("004-15")
async def test_a_stop_reason_is_sent_in_the_dialects_term(tmp_path: Path) -> None:
    async with serve_scenarios(tmp_path, mock="{stop_reason: length}") as server:
        words = [(await server.send(dialect, stream=False)).turn.finish_raw for dialect in DIALECTS]

    assert words == ["length", "max_output_tokens", "max_tokens", "MAX_TOKENS", "length"]


@pytest.mark.shows("004-16")
async def test_usage_stands_in_each_dialects_own_fields(tmp_path: Path) -> None:
    usage = {"input": 100, "output": 7, "cacheRead": 30, "cacheWrite": 20}
    options = {"reply": "Hi.", "usage": usage}
    async with serve_scenarios(tmp_path, mock=json.dumps(options)) as server:
        documents = {
            dialect: (await server.send(dialect, stream=False)).json for dialect in DIALECTS
        }

    anthropic = documents["anthropic"]["usage"]
    assert (anthropic["input_tokens"], anthropic["output_tokens"]) == (100, 7)
    assert anthropic["cache_read_input_tokens"] == 30
    assert anthropic["cache_creation_input_tokens"] == 20
    chat = documents["openai-chat"]["usage"]
    assert (chat["prompt_tokens"], chat["completion_tokens"]) == (100, 7)
    assert chat["prompt_tokens_details"]["cached_tokens"] == 30
    gemini = documents["gemini"]["usageMetadata"]
    assert (gemini["promptTokenCount"], gemini["cachedContentTokenCount"]) == (100, 30)
    ollama = documents["ollama"]
    assert (ollama["prompt_eval_count"], ollama["eval_count"]) == (100, 7)


@pytest.mark.shows("004-16", "004-17")
@each_row(
    ("counts", "usage"),
    [
        ({}, Usage(3, 2, 5)),
        ({"input": 100}, Usage(100, 2, 102)),
        ({"output": 0}, Usage(3, 0, 3)),
        ({"cacheRead": 1}, Usage(3, 2, 5, cache_read=1)),
    ],
)
def test_a_count_that_is_not_given_is_a_quarter_of_the_characters(
    counts: dict[str, int], usage: Usage
) -> None:
    conversation = make_match_context("12345", "678", "9").conversation
    context = replace(make_match_context(), conversation=replace(conversation, system="0"))
    spec = read({"reply": "Hello.", "usage": counts})

    assert turn_of_response(scripting.mock_response(spec, 1, context)).usage == usage


def test_a_function_that_returns_none_echoes() -> None:
    assert (
        turn_of_response(scripting.mock_response(MockSpec(), 1, make_match_context("Hi"))).text
        == "Hi"
    )
    assert (
        turn_of_response(
            scripting.mock_response(MockSpec(), 1, make_match_context("Hi"), MockReply())
        ).parts
        == ()
    )
