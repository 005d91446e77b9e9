"""`scenario try`: which scenario answers a request, and why."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli_process import CommandResult, run_command

SCENARIOS = """
- id: refund
  description: By its id.
  system_prompt_must_include: [support]
  turns:
    - {turn: 1, response: {kind: text, assistant_text: "Done: 3 days."}}
- id: busy
  description: Fails first.
  match: {model: "gpt-*", tool_results: false}
  turns:
    - turn: 1
      failures_before_success: 1
      failure_status: rate_limit
      failure_message: Slow down
      response: {kind: text, assistant_text: Here.}
- id: late
  description: Matches too, but later.
  match: {user: hello}
  turns: []
"""


async def try_request(folder: Path, body: object, *options: str) -> CommandResult:
    """Run `scenario try` on a request with this body."""
    (folder / "scenarios.yaml").write_text(SCENARIOS)
    (folder / "request.json").write_text(json.dumps(body))
    return await run_command(
        "scenario", "try", "scenarios.yaml", "request.json", *options, folder=folder
    )


def request_body(text: str, model: str = "claude", **extra: object) -> dict[str, object]:
    """The body of a request with this user message."""
    return {"model": model, "messages": [{"role": "user", "content": text}], **extra}


@pytest.mark.shows("000-24")
async def test_the_scenario_that_is_named_answers_and_the_others_say_why_not(
    tmp_path: Path,
) -> None:
    result = await try_request(
        tmp_path, request_body("refund", system="support"), "--as", "anthropic"
    )

    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines() == [
        "refund  (scenarios.yaml:2)  chosen: the scenario id equals the first user message",
        "busy  (scenarios.yaml:7)  not chosen: model 'claude' does not match gpt-*",
        "late  (scenarios.yaml:16)  not chosen: user: /hello/ does not match 'refund'",
        "",
        "test-llm: refund, turn 1",
        "text: Done: 3 days.",
        "finish: stop  (provider value 'end_turn')",
        "usage: 64 input, 32 output (tokens)",
        "model: claude",
    ]


async def test_an_unmet_expectation_is_reported_and_fails(tmp_path: Path) -> None:
    result = await try_request(tmp_path, request_body("refund"))

    assert result.exit_code == 1
    assert result.stdout.endswith(
        "test-llm: refund, turn 1\nunsuccessful: System prompt missing: support\n"
        "fails: HTTP 424, scenario_mismatch\n"
    )


async def test_a_request_that_declares_the_final_report_receives_it(tmp_path: Path) -> None:
    tool = {"type": "function", "function": {"name": "agent__final_report"}}
    result = await try_request(tmp_path, request_body("refund", tools=[tool]))

    assert result.exit_code == 1
    assert "unsuccessful: System prompt missing: support" in result.stdout
    assert "tool call: agent__final_report agent-final-report" in result.stdout


async def test_the_first_that_matches_answers_with_its_failure(tmp_path: Path) -> None:
    result = await try_request(tmp_path, request_body("hello", "gpt-4o"))

    assert result.exit_code == 0
    assert (
        "busy  (scenarios.yaml:7)  chosen: the request meets the match conditions" in result.stdout
    )
    assert (
        "not chosen: the request meets the match conditions, but the scenario busy comes first"
        in result.stdout
    )
    assert result.stdout.endswith("fails: rate_limit: Slow down\n")


async def test_a_header_names_a_scenario(tmp_path: Path) -> None:
    result = await try_request(tmp_path, request_body("hello", "gpt-4o"), "--scenario", "late")

    assert (
        "late  (scenarios.yaml:16)  chosen: selected by a header or by the session" in result.stdout
    )
    assert "Scenario late has no turn 1; its turns: none." in result.stdout
    assert result.exit_code == 1


@pytest.mark.parametrize(
    ("body", "options", "reason"),
    [
        ([1], (), "request.json is not a JSON object"),
        (
            {"model": "m"},
            ("--as", "gemini", "--path", "/v1/models"),
            "is not a chat request in the dialect opaque",
        ),
    ],
    ids=["no object", "no turn"],
)
async def test_an_invalid_request_is_refused(
    tmp_path: Path, body: object, options: tuple[str, ...], reason: str
) -> None:
    result = await try_request(tmp_path, body, *options)

    assert (result.exit_code, result.stdout) == (2, "")
    assert reason in result.last_error_line


async def test_a_file_with_mistakes_is_refused_with_them(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("id: a\nturn: []\n")
    (tmp_path / "request.json").write_text("{}")

    result = await run_command("scenario", "try", "bad.yaml", "request.json", folder=tmp_path)

    assert result.exit_code == 2
    assert "bad.yaml:2:1: $.turn: " in result.stderr


async def try_document(folder: Path, document: str, body: object, *options: str) -> CommandResult:
    """Run `scenario try` on a request with the scenarios of this document."""
    (folder / "s.yaml").write_text(document)
    (folder / "request.json").write_text(json.dumps(body))
    return await run_command("scenario", "try", "s.yaml", "request.json", *options, folder=folder)


async def test_a_mock_of_the_file_answers_what_no_scenario_does(tmp_path: Path) -> None:
    document = f"scenarios:{SCENARIOS}mock: {{name: helper, replies: [First., Second.]}}\n"
    result = await try_document(tmp_path, document, request_body("Hi"))

    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines()[3:6] == ["", "mock helper, reply 1", "text: First."]


async def test_a_mock_does_not_answer_for_an_unknown_scenario(tmp_path: Path) -> None:
    result = await try_document(
        tmp_path, "mock: {reply: Hi}\n", request_body("Hi"), "--scenario", "nothing"
    )

    assert result.exit_code == 1
    assert "unsuccessful: Scenario not found: nothing." in result.stdout


async def test_a_mock_without_replies_left_fails(tmp_path: Path) -> None:
    result = await try_document(tmp_path, "mock: {replies: []}\n", request_body("Hi"))

    assert result.exit_code == 1
    assert "The mock 'mock' has 0 replies, but this is request 1" in result.stdout


async def test_reasoning_without_a_signature_is_invisible_to_matches(tmp_path: Path) -> None:
    document = """
id: thinking
description: Matches what is stripped before anything is matched.
match: {json: {"$.messages[1].content[0].thinking": {exists: true}}}
turns: [{turn: 2, response: {kind: text, assistant_text: Seen.}}]
"""
    blocks = [
        {"type": "thinking", "thinking": "Hm."},
        {"type": "tool_use", "id": "t", "name": "look", "input": {}},
    ]
    tool_result = {"type": "tool_result", "tool_use_id": "t", "content": "x"}
    body = {
        "model": "m",
        "max_tokens": 10,
        "messages": [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": blocks},
            {"role": "user", "content": [tool_result]},
        ],
    }
    result = await try_document(tmp_path, document, body, "--as", "anthropic")

    assert result.exit_code == 1
    assert result.stdout.splitlines()[0] == (
        "thinking  (s.yaml:2)  not chosen: $.messages[1].content[0].thinking is missing"
    )
