"""`scenario try`: which scenario answers a request, and why."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command import Ran, run

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


async def tried(folder: Path, body: object, *options: str) -> Ran:
    """What is said of a request with this body."""
    (folder / "scenarios.yaml").write_text(SCENARIOS)
    (folder / "request.json").write_text(json.dumps(body))
    return await run("scenario", "try", "scenarios.yaml", "request.json", *options, folder=folder)


def asking(text: str, model: str = "claude", **more: object) -> dict[str, object]:
    """A request whose user says this."""
    return {"model": model, "messages": [{"role": "user", "content": text}], **more}


@pytest.mark.shows("000-24")
async def test_the_scenario_that_is_named_answers_and_the_others_say_why_not(
    tmp_path: Path,
) -> None:
    ran = await tried(tmp_path, asking("refund", system="support"), "--as", "anthropic")

    assert ran.code == 0, ran.err
    assert ran.out.splitlines() == [
        "refund  (scenarios.yaml:2)  answers: the first user message is its id",
        "busy  (scenarios.yaml:7)  does not: model is 'claude', not gpt-*",
        "late  (scenarios.yaml:16)  does not: user: /hello/ is not in 'refund'",
        "",
        "test-llm: refund, turn 1",
        "text: Done: 3 days.",
        "finish: stop  (in its own word 'end_turn')",
        "usage: 64 in, 32 out (tokens)",
        "answered by: claude",
    ]


async def test_what_is_not_as_expected_is_told_and_fails(tmp_path: Path) -> None:
    ran = await tried(tmp_path, asking("refund"))

    assert ran.code == 1
    assert "unsuccessful: System prompt missing: support" in ran.out


async def test_the_first_that_matches_answers_with_its_failure(tmp_path: Path) -> None:
    ran = await tried(tmp_path, asking("hello", "gpt-4o"))

    assert ran.code == 0
    assert "busy  (scenarios.yaml:7)  answers: its match holds" in ran.out
    assert "does not: its match holds too, but another comes first" in ran.out
    assert ran.out.endswith("fails: rate_limit: Slow down\n")


async def test_a_header_names_a_scenario(tmp_path: Path) -> None:
    ran = await tried(tmp_path, asking("hello", "gpt-4o"), "--scenario", "late")

    assert "late  (scenarios.yaml:16)  answers: a header or the session names it" in ran.out
    assert "Scenario late has no turn 1; its turns: none." in ran.out
    assert ran.code == 1


@pytest.mark.parametrize(
    ("body", "options", "why"),
    [
        ([1], (), "request.json holds no JSON object"),
        ({"model": "m"}, ("--as", "gemini", "--path", "/v1/models"), "asks for no turn"),
    ],
    ids=["no object", "no turn"],
)
async def test_a_request_that_is_none_is_refused(
    tmp_path: Path, body: object, options: tuple[str, ...], why: str
) -> None:
    ran = await tried(tmp_path, body, *options)

    assert (ran.code, ran.out) == (2, "")
    assert why in ran.complaint


async def test_a_file_with_mistakes_is_refused_with_them(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("id: a\nturn: []\n")
    (tmp_path / "request.json").write_text("{}")

    ran = await run("scenario", "try", "bad.yaml", "request.json", folder=tmp_path)

    assert ran.code == 2
    assert "bad.yaml:2:1: $.turn: " in ran.err
