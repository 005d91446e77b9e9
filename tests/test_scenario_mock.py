"""A mock answers whatever is asked, by the options of document 004."""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from llm_proxy.pacing import InstantPace
from llm_proxy.scenario.documents import loading
from llm_proxy.scenario.documents.document import MockReply, MockSpec
from llm_proxy.scenario.engine import mock
from llm_proxy.scenario.engine.mock import MockRequest
from llm_proxy.scenario.scripted_response import ReportExhausted, ScriptedResponse
from llm_proxy.turns import Finish, Text, ToolCall, Turn, Usage
from scenario_server import (
    DIALECTS,
    cue,
    in_every_dialect,
    in_every_form,
    plain,
    playing,
    says,
    script,
    turn_of,
)


def read(options: dict[str, Any]) -> MockSpec:
    return loading.parse_struct(MockSpec, "--mock", json.dumps(options))


def called(number: int = 1, said: str = "Hi", /, **options: Any) -> ScriptedResponse:
    """The answer to that call of a mock with these options."""
    return mock.mock_response(MockRequest(read(options), number), cue(said))


def answered(*args: Any, **options: Any) -> Turn:
    return turn_of(called(*args, **options))


# What is said


@pytest.mark.shows("004-01", "004-10")
@in_every_dialect
@in_every_form
async def test_without_options_the_last_message_is_said_at_once_and_to_the_letter(
    tmp_path: Path, dialect: str, stream: bool
) -> None:
    said = ("First.", "Yes?", " Grüße\n\n🌊  ")
    async with playing(tmp_path, mock="{}", pace=InstantPace()) as stage:
        heard = await stage.ask(dialect, said=said, stream=stream)

    assert plain(heard) == [("text", " Grüße\n\n🌊  ")]
    assert stage.last.source == "mock mock"


@pytest.mark.shows("004-01")
def test_every_option_is_optional_and_fixed() -> None:
    it = read({})

    assert it == MockSpec()
    with pytest.raises(AttributeError):
        it.name = "other"  # type: ignore[misc] # that it cannot be set is what is shown


@pytest.mark.shows("004-01")
@pytest.mark.parametrize("where", ["a file", "the command line"])
async def test_a_mock_stands_in_a_file_or_on_the_command_line(tmp_path: Path, where: str) -> None:
    path = tmp_path / "mocks.yaml"
    path.write_text("scenarios: []\nmock: {reply: Of the file.}\n")
    option = "{reply: Of the option.}" if where == "the command line" else ""
    async with playing(tmp_path, scenarios=path, mock=option) as stage:
        heard = await stage.ask()

    assert heard.turn.text == ("Of the option." if option else "Of the file.")


@pytest.mark.shows("004-01")
async def test_a_mock_answers_what_no_scenario_does(tmp_path: Path) -> None:
    async with playing(tmp_path, script(says("Scripted.")), mock="{reply: Mocked.}") as stage:
        heard = [(await stage.ask(said=(item,))).turn.text for item in ("refund", "else")]

    assert heard == ["Scripted.", "Mocked."]


@pytest.mark.shows("004-02")
async def test_a_mock_is_called_by_its_name(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "llm_proxy")
    async with playing(tmp_path, mock="{name: helper, replies: [One.]}") as stage:
        await stage.ask()
        exhausted = await stage.ask(stream=False)

    assert stage.entries[0].origin == "mock helper"
    assert "POST /v1/chat/completions: mock helper" in caplog.messages
    assert "The mock 'helper' has 1 reply" in exhausted.json["error"]["message"]
    assert called().origin == "mock mock"


@pytest.mark.shows("004-03")
def test_a_reply_is_what_every_answer_says() -> None:
    assert [answered(item, reply="Always.").text for item in (1, 2, 9)] == ["Always."] * 3
    assert answered(reply="").parts == ()


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
    async with playing(tmp_path, mock=json.dumps(EXAMPLE), pace=InstantPace()) as stage:
        first, second = [await stage.ask(dialect, stream=stream) for _ in range(2)]

    assert plain(first) == [("call", "1", "lookup", '{"id":42}')]
    assert plain(second) == [("text", "Found it: refunds take 3 business days.")]


@pytest.mark.shows("004-04")
async def test_replies_are_counted_by_calls_for_each_session(tmp_path: Path) -> None:
    async with playing(tmp_path, mock="{replies: [One., Two., Three.]}") as stage:
        long_history = ("Hi", *("x", "y") * 5)
        heard = [
            (await stage.ask(session=session, said=said)).turn.text
            for session, said in (("a", long_history), ("b", ("Hi",)), ("a", ("Hi",)), ("b", ()))
        ]
        together = await asyncio.gather(*(stage.ask(session="c") for _ in range(3)))
        await stage.page("sessions/a/reset", method="POST")
        again = (await stage.ask(session="a")).turn.text

    assert heard == ["One.", "One.", "Two.", "Two."]
    assert sorted(item.turn.text for item in together) == ["One.", "Three.", "Two."]
    assert again == "One."


@pytest.mark.shows("004-04")
async def test_a_failure_that_a_scenario_simulates_uses_up_no_reply(tmp_path: Path) -> None:
    fails = script(says(failuresBeforeSuccess=1))
    async with playing(tmp_path, fails, mock="{replies: [One.]}") as stage:
        failed = await stage.ask()
        heard = await stage.ask(said=("else",))

    assert (failed.raw.status, heard.turn.text) == (500, "One.")


@pytest.mark.shows("004-05")
def test_a_reply_is_partial_and_what_is_left_out_is_empty() -> None:
    both = {"content": "Hm.", "tool_calls": [{"name": "a"}, {"name": "b", "args": {"x": 1.0}}]}
    replies = ["A text.", {}, both, {"content": "x", "stopReason": "length", "usage": {"input": 1}}]

    said = [answered(item, replies=replies) for item in (1, 2, 3, 4)]

    assert [item.parts for item in said] == [
        (Text("A text."),),
        (),
        (Text("Hm."), ToolCall("call-1", "a", "{}"), ToolCall("call-2", "b", '{"x":1}')),
        (Text("x"),),
    ]
    assert (said[3].finish, said[3].usage) == (Finish.LENGTH, Usage(1, 1, 2))


@pytest.mark.shows("004-07")
@in_every_dialect
@in_every_form
async def test_one_call_too_many_is_an_error_before_any_stream(
    tmp_path: Path, dialect: str, stream: bool
) -> None:
    async with playing(tmp_path, mock='{replies: ["One.", "Two."]}', pace=InstantPace()) as stage:
        heard = [await stage.ask(dialect, stream=stream) for _ in range(4)]

    assert [item.raw.status for item in heard] == [200, 200, 424, 424]
    raw = heard[3].raw
    assert (raw.header("x-should-retry"), raw.header("x-llm-proxy-error")) == (
        "false", "script_exhausted",
    )  # fmt: skip
    why = (
        "The mock 'mock' has 2 replies, and this is call 4: "
        "script another reply, or have the agent ask less often."
    )
    failure = heard[3].turn.failure
    assert failure is not None
    assert failure.message == why
    assert [item.why for item in stage.journal.unsuccessful][1:] == [why]


@pytest.mark.shows("004-08")
def test_replies_come_before_a_reply_and_an_empty_list_is_used_up_at_once() -> None:
    assert answered(replies=["Mine."], reply="Not this.").text == "Mine."
    empty = called(replies=[], reply="Not this.")

    assert isinstance(empty.action, ReportExhausted)
    assert "has 0 replies, and this is call 1" in empty.action.message


# Stop reason and usage


@pytest.mark.shows("004-15")
@pytest.mark.parametrize(
    ("options", "finish"),
    [
        ({}, Finish.STOP),
        ({"stopReason": "length"}, Finish.LENGTH),
        ({"stopReason": "end_turn"}, Finish.STOP),
        (EXAMPLE, Finish.TOOL_CALLS),
        (EXAMPLE | {"stopReason": "stop"}, Finish.STOP),
        ({"replies": [{"content": "x", "stopReason": "max_tokens"}]}, Finish.LENGTH),
        ({"replies": [{"stopReason": "length"}], "stopReason": "stop"}, Finish.LENGTH),
    ],
)
def test_an_answer_stops_as_the_mock_says_or_for_its_calls(
    options: dict[str, Any], finish: Finish
) -> None:
    assert answered(**options).finish is finish


@pytest.mark.shows("004-15")
async def test_a_stop_reason_is_told_in_the_dialects_word(tmp_path: Path) -> None:
    async with playing(tmp_path, mock="{stop_reason: length}") as stage:
        words = [(await stage.ask(dialect, stream=False)).turn.finish_raw for dialect in DIALECTS]

    assert words == ["length", "max_output_tokens", "max_tokens", "MAX_TOKENS", "length"]


@pytest.mark.shows("004-16")
async def test_usage_stands_in_each_dialects_own_fields(tmp_path: Path) -> None:
    usage = {"input": 100, "output": 7, "cacheRead": 30, "cacheWrite": 20}
    options = {"reply": "Hi.", "usage": usage}
    async with playing(tmp_path, mock=json.dumps(options)) as stage:
        heard = {dialect: (await stage.ask(dialect, stream=False)).json for dialect in DIALECTS}

    anthropic = heard["anthropic"]["usage"]
    assert (anthropic["input_tokens"], anthropic["output_tokens"]) == (100, 7)
    assert anthropic["cache_read_input_tokens"] == 30
    assert anthropic["cache_creation_input_tokens"] == 20
    chat = heard["openai-chat"]["usage"]
    assert (chat["prompt_tokens"], chat["completion_tokens"]) == (100, 7)
    assert chat["prompt_tokens_details"]["cached_tokens"] == 30
    gemini = heard["gemini"]["usageMetadata"]
    assert (gemini["promptTokenCount"], gemini["cachedContentTokenCount"]) == (100, 30)
    ollama = heard["ollama"]
    assert (ollama["prompt_eval_count"], ollama["eval_count"]) == (100, 7)


@pytest.mark.shows("004-16", "004-17")
@pytest.mark.parametrize(
    ("given", "usage"),
    [
        ({}, Usage(3, 2, 5)),
        ({"input": 100}, Usage(100, 2, 102)),
        ({"output": 0}, Usage(3, 0, 3)),
        ({"cacheRead": 1}, Usage(3, 2, 5, cache_read=1)),
    ],
)
def test_a_count_that_is_not_given_is_a_quarter_of_the_characters(
    given: dict[str, int], usage: Usage
) -> None:
    conversation = cue("12345", "678", "9").conversation
    on = replace(cue(), conversation=replace(conversation, system="0"))
    it = MockRequest(read({"reply": "Hello.", "usage": given}), 1)

    assert turn_of(mock.mock_response(it, on)).usage == usage


def test_a_function_that_says_nothing_echoes() -> None:
    assert turn_of(mock.mock_response(MockRequest(MockSpec(), 1, None), cue("Hi"))).text == "Hi"
    assert (
        turn_of(mock.mock_response(MockRequest(MockSpec(), 1, MockReply()), cue("Hi"))).parts == ()
    )
