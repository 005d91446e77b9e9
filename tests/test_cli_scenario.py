"""`llm-proxy scenario` and `schema`: scenario files listed, checked, and described."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli_process import run
from llm_proxy.scenario.documents.schema import scenario_schema

GOOD = """
- id: refund
  description: A refund in two turns.
  turns:
    - {turn: 1, response: {kind: text, assistant_text: Hello.}}
    - {turn: 2, response: {kind: text, assistant_text: Bye.}}
- {id: empty, description: Nothing., turns: []}
"""
DOUBTFUL = "scenarios/a.yaml:7:38: $[1].turns: there are no turns, so every request fails"
BAD = "id: bad\ndescription: b\nturnss: []\n"
WRONG = "scenarios/b.yaml:3:1: $.turnss: there is no such field; did you mean turns?"
STATUS = """
id: status
description: c
turns:
  - turn: 1
    response: {kind: text, assistant_text: Hello.}
    failures_before_success: 1
    failure_status: rate_limited
"""


def files(folder: Path, **texts: str) -> None:
    (folder / "scenarios").mkdir()
    for name, text in texts.items():
        (folder / "scenarios" / f"{name}.yaml").write_text(text, "utf-8")


@pytest.mark.shows("000-28")
async def test_ls_lists_each_scenario_in_a_row(tmp_path: Path) -> None:
    files(tmp_path, a=GOOD, m="mock: {name: helper}\n")

    ran = await run("scenario", "ls", folder=tmp_path)

    assert ran.code == 0
    assert ran.out.splitlines() == [
        "SCENARIO  TURNS  DESCRIPTION             PLACE",
        "refund        2  A refund in two turns.  scenarios/a.yaml:2",
        "empty         0  Nothing.                scenarios/a.yaml:7",
    ]
    assert ran.err == "llm-proxy: 2 scenarios, the mock helper\n"


async def test_ls_tells_mistakes_and_lists_the_rest(tmp_path: Path) -> None:
    files(tmp_path, a=GOOD, b=BAD)

    ran = await run("scenario", "ls", "scenarios/a.yaml", "scenarios/b.yaml", folder=tmp_path)

    assert ran.code == 1
    assert ran.out.splitlines()[1].startswith("refund")
    assert ran.out.splitlines()[-1] == f"mistake: {WRONG}"
    assert ran.err == "llm-proxy: 2 scenarios, 1 mistake\n"


async def test_ls_gives_one_json_document(tmp_path: Path) -> None:
    files(tmp_path, a=GOOD, b=BAD)

    ran = await run("scenario", "ls", "--json", folder=tmp_path)

    assert (ran.code, ran.err) == (1, "")
    assert json.loads(ran.out) == {
        "scenarios": [
            {
                "id": "refund",
                "turns": [1, 2],
                "description": "A refund in two turns.",
                "file": "scenarios/a.yaml",
                "line": 2,
            },
            {
                "id": "empty",
                "turns": [],
                "description": "Nothing.",
                "file": "scenarios/a.yaml",
                "line": 7,
            },
        ],
        "mock": None,
        "mistakes": [
            {
                "file": "scenarios/b.yaml",
                "line": 3,
                "column": 1,
                "path": "$.turnss",
                "message": "there is no such field; did you mean turns?",
                "severity": "mistake",
            }
        ],
    }


async def test_lint_is_content_with_what_is_right(tmp_path: Path) -> None:
    files(tmp_path, a=GOOD.rpartition("- {id")[0])

    ran = await run("scenario", "lint", "--strict", folder=tmp_path)

    assert (ran.code, ran.out) == (0, "")
    assert ran.err == "llm-proxy: 1 scenario checked, nothing is wrong\n"


async def test_lint_tells_each_mistake_in_a_line(tmp_path: Path) -> None:
    files(tmp_path, a=GOOD, b=BAD)

    ran = await run("scenario", "lint", folder=tmp_path)

    assert ran.code == 1
    assert ran.out.splitlines() == [WRONG, f"{DOUBTFUL} (warning)"]
    assert ran.err == "llm-proxy: 1 mistake and 1 warning; 2 scenarios can be played\n"


async def test_lint_fails_over_warnings_where_it_is_strict(tmp_path: Path) -> None:
    files(tmp_path, a=GOOD)

    assert (await run("scenario", "lint", folder=tmp_path)).code == 0
    ran = await run("scenario", "lint", "--strict", folder=tmp_path)

    assert (ran.code, ran.out) == (1, f"{DOUBTFUL} (warning)\n")


@pytest.mark.shows("000-64")
async def test_lint_fails_over_an_unknown_status_that_loading_plays(tmp_path: Path) -> None:
    files(tmp_path, c=STATUS)

    ran = await run("scenario", "lint", "--json", folder=tmp_path)
    document = json.loads(ran.out)

    assert (ran.code, document["ok"], document["scenarios"]) == (1, False, 1)
    [problem] = document["problems"]
    assert (problem["path"], problem["severity"]) == ("$.turns[0].failure_status", "mistake")
    assert problem["message"].endswith("did you mean rate_limit?")


async def test_where_the_scenarios_are_may_be_set(tmp_path: Path) -> None:
    files(tmp_path, a=GOOD)
    (tmp_path / "scenarios").rename(tmp_path / "scripts")
    missing = "there is no file or folder scenarios: give --scenarios one that there is"

    assert (await run("scenario", "ls", folder=tmp_path)).err == f"llm-proxy: {missing}\n"
    assert (await run("scenario", "ls", "--scenarios", "scripts", folder=tmp_path)).code == 0
    named = {"LLM_PROXY_SCENARIOS": "scripts"}
    assert (await run("scenario", "lint", folder=tmp_path, env=named)).code == 0
    (tmp_path / "llm-proxy.toml").write_text('scenarios = "scripts"\n')
    assert (await run("scenario", "ls", folder=tmp_path)).code == 0


async def test_a_command_that_there_is_not_is_told(tmp_path: Path) -> None:
    ran = await run("scenario", "lnt", folder=tmp_path)

    assert (ran.code, ran.err) == (2, "llm-proxy: there is no command 'lnt': did you mean lint?\n")


async def test_the_schema_is_printed(tmp_path: Path) -> None:
    ran = await run("schema", folder=tmp_path)

    assert (ran.code, ran.err) == (0, "")
    assert json.loads(ran.out) == json.loads(json.dumps(scenario_schema()))
    assert (await run("schema", "scenario", folder=tmp_path)).out == ran.out
