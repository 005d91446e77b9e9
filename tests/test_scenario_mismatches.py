"""Requests that no scenario expects: a final report if the client has its tool, else an error."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from case_tables import each_row
from conversation_requests import CONVERSATION_CASES, SIGNATURE
from dialect_manners import DIALECTS_WITHOUT_CALLS
from llm_proxy import dialects
from llm_proxy.exchange import Request
from llm_proxy.routing import SCENARIO_HEADER
from llm_proxy.shell.running.settings import ModeName
from scenario_server import (
    REPORT,
    DecodedResponse,
    JsonObject,
    ScenarioServer,
    check_failure_report,
    in_every_form,
    mismatch_message,
    missing_turn_report,
    report_fields,
    scenario_document,
    serve_scenarios,
    single_turn_scenario,
    text_turn,
    tool_call_turn,
)

# Every check, in both forms, in every dialect


def any_turn(name: str, fields: JsonObject, **scenario_fields: Any) -> JsonObject:
    """A scenario with this expectation of every turn."""
    return scenario_document(text_turn(turn="any", **fields), name=name, **scenario_fields)


SCENARIOS: Final = (
    any_turn("system prompt", {}, system_prompt_must_include=["Be brief.", "Be kind."]),
    scenario_document(text_turn(turn=9), name="turn"),
    any_turn("tools", {"expected_tools": ["lookup.order"]}),
    any_turn("temperature", {"expected_temperature": 0.25}),
    any_turn("top_p", {"expected_top_p": 0.25}),
    any_turn("reasoning on", {"expected_reasoning": "enabled"}, expect_signature=True),
    any_turn("reasoning off", {"expected_reasoning": "disabled"}),
)
MESSAGES: Final = {
    "": "No scenario was selected, because the request contains no user text.",
    "hello": "Scenario not found: hello. Run `llm-proxy scenario ls` to list all ids.",
    "system prompt": "System prompt missing: Be kind.",
    "turn": "Scenario turn has no turn 2; its turns: 9.",
    "tools": "Expected tools not available: lookup.order",
    "temperature": "Expected temperature 0.25 but received 0.5",
    "top_p": "Expected topP 0.25 but received 1",
    "reasoning on": "Expected reasoning to remain enabled",
    "reasoning off": "Expected reasoning to be disabled",
}
"""The message of the failed check, by the user text of the request."""
PROMPT_MESSAGES: Final = MESSAGES | {
    "system prompt": "System prompt missing: Be brief., Be kind.",
    "turn": "Scenario turn has no turn 1; its turns: 9.",
}
"""Those of a request that has a prompt only."""


def mismatching_request(dialect: str, user_text: str, *, stream: bool, tool: str) -> Request:
    """A request with this user text that declares one tool, and enables reasoning.

    In its history are reasoning and a call of the tool.
    """
    sample = dialects.chat_dialects()[dialect].sample_request("m", stream=stream)
    if dialect in DIALECTS_WITHOUT_CALLS:
        conversation: JsonObject = {"prompt": user_text, "temperature": 0.5, "top_p": 1}
    else:
        body = CONVERSATION_CASES[dialect][0].body.decode()
        body = body.replace("Weather in Rome?", user_text).replace("Please.", "")
        body = body.replace('"weather"', f'"{tool}"')
        if user_text == "reasoning on":  # unsigned reasoning counts as disabled
            body = body.replace(SIGNATURE, "")
        conversation = json.loads(body)
    document = json.loads(sample.body) | conversation
    return Request("POST", sample.path, sample.query, sample.headers, json.dumps(document).encode())


def messages_for(dialect: str) -> Mapping[str, str]:
    """The message of each check that a request in this dialect can fail."""
    if dialect not in DIALECTS_WITHOUT_CALLS:
        return MESSAGES
    return {text: item for text, item in PROMPT_MESSAGES.items() if text != "reasoning off"}


async def send_mismatches(
    server: ScenarioServer, dialect: str, *, stream: bool, tool: str
) -> dict[str, DecodedResponse]:
    """The response to a request that fails the check, by the check."""
    return {
        text: await server.send_encoded(
            mismatching_request(dialect, text, stream=stream, tool=tool)
        )
        for text in messages_for(dialect)
    }


@pytest.mark.shows(
    "000-26", "000-27", "000-33", "000-35", "000-36", "000-42", "000-45", "000-47", "000-50",
    "000-51", "000-96", "000-97", "000-98",
)  # fmt: skip
@each_row("dialect", dialects.chat_dialects())
@in_every_form
async def test_a_client_without_the_reports_tool_receives_an_error_that_it_does_not_retry(
    tmp_path: Path, dialect: str, stream: bool
) -> None:
    async with serve_scenarios(tmp_path, *SCENARIOS) as server:
        responses = await send_mismatches(server, dialect, stream=stream, tool="weather")

    messages = messages_for(dialect)
    error_body = dialects.chat_dialects()[dialect].error_body
    assert {text: mismatch_message(item) for text, item in responses.items()} == messages
    for text, response in responses.items():
        raw = response.raw_response
        assert (raw.status, raw.header("x-should-retry"), raw.header("content-type")) == (
            424, "false", "application/json",
        )  # fmt: skip
        assert raw.body == error_body(424, "scenario_mismatch", messages[text])
    assert_each_session_failed(server, messages)


@pytest.mark.shows(
    "000-26", "000-27", "000-33", "000-35", "000-36", "000-42", "000-45", "000-47", "000-50",
    "000-51", "000-96", "000-97", "000-98",
)  # fmt: skip
@each_row("dialect", sorted(dialects.chat_dialects().keys() - DIALECTS_WITHOUT_CALLS))
@in_every_form
async def test_a_client_with_the_reports_tool_receives_the_report_in_the_requested_form(
    tmp_path: Path, dialect: str, stream: bool
) -> None:
    async with serve_scenarios(tmp_path, *SCENARIOS) as server:
        responses = await send_mismatches(server, dialect, stream=stream, tool=REPORT)

    messages = messages_for(dialect)
    assert {text: report_fields(item.turn) for text, item in responses.items()} == {
        text: (missing_turn_report if text == "turn" else check_failure_report)(message)
        for text, message in messages.items()
    }
    for response in responses.values():
        raw = response.raw_response
        is_document = (raw.header("content-type") or "").startswith("application/json")
        assert (raw.status, raw.ending, is_document) == (200, "clean", not stream)
    assert_each_session_failed(server, messages)


def assert_each_session_failed(server: ScenarioServer, messages: Mapping[str, str]) -> None:
    reasons = [item.reason for item in server.journal.failed_sessions]
    journaled = [entry.simulated and entry.simulated.unsuccessful for entry in server.entries]
    assert reasons == journaled == list(messages.values())
    assert server.journal.counts.unsuccessful == len(messages)


# The choice of the form


@each_row(
    ("on_mismatch", "tools", "status"),
    [
        ("auto", (), 424),
        ("auto", ("lookup", "final_report"), 424),
        ("auto", ("lookup", REPORT), 200),
        ("auto", (f" <|channel|>{REPORT} ",), 200),
        ("report", (), 200),
        ("report", (REPORT,), 200),
        ("error", (), 424),
        ("error", (REPORT,), 424),
    ],
)
async def test_the_declared_tools_decide_unless_the_operator_does(
    tmp_path: Path, on_mismatch: str, tools: tuple[str, ...], status: int
) -> None:
    async with serve_scenarios(
        tmp_path, scenario_document(text_turn()), on_mismatch=on_mismatch
    ) as server:
        response = await server.send(texts=("else",), tools=tools)

    assert response.raw_response.status == status


@pytest.mark.shows("000-69", "000-98")
@each_row("on_mismatch", ["auto", "report", "error"])
async def test_a_scripted_final_report_is_sent_to_any_client(
    tmp_path: Path, on_mismatch: str
) -> None:
    document = single_turn_scenario("final-report", reportContent="No.", status="failure")
    async with serve_scenarios(tmp_path, document, on_mismatch=on_mismatch) as server:
        response = await server.send()

    assert (response.raw_response.status, report_fields(response.turn)["report_content"]) == (
        200, "No.",
    )  # fmt: skip
    assert server.journal.failed_sessions == []


@each_row("mode", ["replay", "auto"])
async def test_a_scenario_named_by_a_header_has_mismatches_where_cassettes_come_first(
    tmp_path: Path, mode: ModeName
) -> None:
    document = scenario_document(text_turn(expectedTools=["lookup"]))
    async with serve_scenarios(tmp_path, document, mode=mode, on_miss="scenario") as server:
        failed = await server.send()
        unknown = await server.send(header=f"{SCENARIO_HEADER}: nobody")

    assert mismatch_message(failed) == "Expected tools not available: lookup"
    assert mismatch_message(unknown).startswith("Scenario not found: nobody.")
    assert server.journal.counts.missed == 0


# Agents that send the request again and again


async def run_agent(server: ScenarioServer, *, requests: int) -> None:
    """Send requests with a growing history, as an agent that calls a tool it does not know."""
    texts = ["refund"]
    for _ in range(requests):
        await server.send(texts=tuple(texts))
        texts += ["", "unknown tool"]


async def test_a_mismatch_that_an_agent_repeats_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "llm_proxy")
    document = scenario_document(tool_call_turn("lookup"))
    async with serve_scenarios(tmp_path, document, on_mismatch="report") as server:
        caplog.clear()
        await run_agent(server, requests=6)
        for texts in (("else",), ("else", "x", "y")):
            await server.send(texts=texts, session="a")
        logged = [record.getMessage() for record in caplog.records]

    line = "POST /v1/chat/completions: "
    unknown = "Scenario not found: else. Run `llm-proxy scenario ls` to list all ids"
    assert logged == [
        f"{line}test-llm: refund, turn 1",
        f"{line}test-llm: refund, turn 2",
        f"{line}Scenario refund has no turn 2; its turns: 1.",
        f"{line}test-llm",
        f"{line}{unknown}.",
    ]
    assert server.journal.counts.unsuccessful == 7
    assert server.journal.repeated_mismatches.times_by_label == {
        "Scenario refund has no turn 2; its turns: 1": 5,
        f"{unknown}, session a": 2,
    }
