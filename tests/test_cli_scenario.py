"""`llm-proxy scenario` and `schema`: list, check and describe scenario files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli_process import run_command
from llm_proxy.scenario.documents.document import scenario_schema

VALID_SCENARIOS = """
- id: refund
  description: A refund in two turns.
  turns:
    - {turn: 1, response: {kind: text, assistant_text: Hello.}}
    - {turn: 2, response: {kind: text, assistant_text: Bye.}}
- {id: empty, description: Nothing., turns: []}
"""
NO_TURNS_WARNING = (
    "scenarios/a.yaml:7:38: $[1].turns: the scenario has no turns, so every request fails"
)
INVALID_SCENARIO = "id: bad\ndescription: b\nturnss: []\n"
UNKNOWN_FIELD_MISTAKE = (
    "scenarios/b.yaml:3:1: $.turnss: unknown field 'turnss'; did you mean 'turns'?"
)
UNKNOWN_STATUS = """
id: status
description: c
turns:
  - turn: 1
    response: {kind: text, assistant_text: Hello.}
    failures_before_success: 1
    failure_status: rate_limited
"""


def write_scenarios(folder: Path, **texts: str) -> None:
    (folder / "scenarios").mkdir()
    for name, text in texts.items():
        (folder / "scenarios" / f"{name}.yaml").write_text(text, "utf-8")


@pytest.mark.shows("000-28")
async def test_ls_lists_each_scenario_in_a_row(tmp_path: Path) -> None:
    write_scenarios(tmp_path, a=VALID_SCENARIOS, m="mock: {name: helper}\n")

    result = await run_command("scenario", "ls", folder=tmp_path)

    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "SCENARIO  TURNS  DESCRIPTION             LOCATION",
        "refund        2  A refund in two turns.  scenarios/a.yaml:2",
        "empty         0  Nothing.                scenarios/a.yaml:7",
    ]
    assert result.stderr == "llm-proxy: 2 scenarios, mock 'helper'\n"


async def test_ls_reports_mistakes_and_lists_the_rest(tmp_path: Path) -> None:
    write_scenarios(tmp_path, a=VALID_SCENARIOS, b=INVALID_SCENARIO)

    result = await run_command(
        "scenario", "ls", "scenarios/a.yaml", "scenarios/b.yaml", folder=tmp_path
    )

    assert result.exit_code == 1
    assert result.stdout.splitlines()[1].startswith("refund")
    assert result.stdout.splitlines()[-1] == f"error: {UNKNOWN_FIELD_MISTAKE}"
    assert result.stderr == "llm-proxy: 2 scenarios, 1 error\n"


async def test_ls_gives_one_json_document(tmp_path: Path) -> None:
    write_scenarios(tmp_path, a=VALID_SCENARIOS, b=INVALID_SCENARIO)

    result = await run_command("scenario", "ls", "--json", folder=tmp_path)

    assert (result.exit_code, result.stderr) == (1, "")
    assert json.loads(result.stdout) == {
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
        "errors": [
            {
                "file": "scenarios/b.yaml",
                "line": 3,
                "column": 1,
                "path": "$.turnss",
                "message": "unknown field 'turnss'; did you mean 'turns'?",
                "severity": "error",
            }
        ],
    }


async def test_lint_accepts_valid_scenarios(tmp_path: Path) -> None:
    write_scenarios(tmp_path, a=VALID_SCENARIOS.rpartition("- {id")[0])

    result = await run_command("scenario", "lint", "--strict", folder=tmp_path)

    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "llm-proxy: 1 scenario checked, no problems found\n"


async def test_lint_reports_each_mistake_in_a_line(tmp_path: Path) -> None:
    write_scenarios(tmp_path, a=VALID_SCENARIOS, b=INVALID_SCENARIO)

    result = await run_command("scenario", "lint", folder=tmp_path)

    assert result.exit_code == 1
    assert result.stdout.splitlines() == [UNKNOWN_FIELD_MISTAKE, f"{NO_TURNS_WARNING} (warning)"]
    assert result.stderr == "llm-proxy: 1 error and 1 warning found; 2 scenarios loaded\n"


async def test_lint_fails_over_warnings_where_it_is_strict(tmp_path: Path) -> None:
    write_scenarios(tmp_path, a=VALID_SCENARIOS)

    assert (await run_command("scenario", "lint", folder=tmp_path)).exit_code == 0
    result = await run_command("scenario", "lint", "--strict", folder=tmp_path)

    assert (result.exit_code, result.stdout) == (1, f"{NO_TURNS_WARNING} (warning)\n")


@pytest.mark.shows("000-64")
async def test_lint_fails_over_an_unknown_status_that_loading_plays(tmp_path: Path) -> None:
    write_scenarios(tmp_path, c=UNKNOWN_STATUS)

    result = await run_command("scenario", "lint", "--json", folder=tmp_path)
    document = json.loads(result.stdout)

    assert (result.exit_code, document["ok"], document["scenarios"]) == (1, False, 1)
    [problem] = document["problems"]
    assert (problem["path"], problem["severity"]) == ("$.turns[0].failure_status", "error")
    assert problem["message"].endswith("did you mean 'rate_limit'?")


async def test_the_scenarios_folder_is_configurable(tmp_path: Path) -> None:
    write_scenarios(tmp_path, a=VALID_SCENARIOS)
    (tmp_path / "scenarios").rename(tmp_path / "scripts")
    missing = "no such file or folder: scenarios (set --scenarios)"

    assert (
        await run_command("scenario", "ls", folder=tmp_path)
    ).stderr == f"llm-proxy: error: {missing}\n"
    assert (
        await run_command("scenario", "ls", "--scenarios", "scripts", folder=tmp_path)
    ).exit_code == 0
    environment = {"LLM_PROXY_SCENARIOS": "scripts"}
    assert (await run_command("scenario", "lint", folder=tmp_path, env=environment)).exit_code == 0
    (tmp_path / "llm-proxy.toml").write_text('scenarios = "scripts"\n')
    assert (await run_command("scenario", "ls", folder=tmp_path)).exit_code == 0


async def test_an_unknown_subcommand_is_reported(tmp_path: Path) -> None:
    result = await run_command("scenario", "lnt", folder=tmp_path)

    assert (result.exit_code, result.stderr) == (
        2,
        "llm-proxy: error: unknown command 'lnt'; did you mean 'lint'?\n",
    )


async def test_the_schema_is_printed(tmp_path: Path) -> None:
    result = await run_command("schema", folder=tmp_path)

    assert (result.exit_code, result.stderr) == (0, "")
    assert json.loads(result.stdout) == json.loads(json.dumps(scenario_schema()))
    assert (await run_command("schema", "scenario", folder=tmp_path)).stdout == result.stdout
