"""`llm-proxy simulate` at the command line, and scenarios combined with cassettes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from case_tables import each_row
from cli_process import CommandResult, run_command, run_requests, running_server
from raw_http import send_request
from scenario_server import JsonObject, scenario_document, text_turn, write_scenarios
from stored_cassettes import raw_chat_request, write_cassettes
from stored_cassettes import text_response as chat_answer

INSTANT = ("--pace", "instant")


async def run_simulate(
    folder: Path, *arguments: str, prompts: Iterable[str] = ("refund",)
) -> tuple[CommandResult, list[int]]:
    requests = map(raw_chat_request, prompts)
    return await run_requests("simulate", *INSTANT, *arguments, folder=folder, requests=requests)


TOOL_REQUIRED_SCENARIO: JsonObject = scenario_document(text_turn(expectedTools=["lookup"]))


@pytest.mark.shows("000-98")
@each_row(
    ("prompt", "expected_error"),
    [
        ("refund", "Expected tools not available: lookup"),
        ("refunds", "Scenario not found: refunds. Did you mean refund?"),
    ],
)
@each_row(("form", "status"), [("report", 200), ("error", 424)])
async def test_a_strict_run_fails_in_whatever_form_the_application_got_the_mismatch(
    tmp_path: Path, prompt: str, expected_error: str, form: str, status: int
) -> None:
    path = str(write_scenarios(tmp_path, TOOL_REQUIRED_SCENARIO))
    options = ("--scenarios", path, "--strict", "--on-mismatch", form)

    strict, statuses = await run_simulate(tmp_path, *options, prompts=[prompt])

    assert (strict.exit_code, statuses) == (1, [status])
    assert expected_error in strict.stderr
    assert "1 request matched no scenario or failed a check" in strict.stderr


async def test_a_run_that_is_not_strict_warns(tmp_path: Path) -> None:
    ran, statuses = await run_simulate(
        tmp_path, "--scenarios", str(write_scenarios(tmp_path, TOOL_REQUIRED_SCENARIO))
    )

    assert (ran.exit_code, statuses) == (0, [424])
    assert "Expected tools not available: lookup" in ran.stderr


SEE_ABOVE = "see the warnings above"


async def test_a_repeated_mismatch_is_logged_once_and_counted_at_the_end(tmp_path: Path) -> None:
    path = str(write_scenarios(tmp_path, TOOL_REQUIRED_SCENARIO))

    ran, _ = await run_simulate(tmp_path, "--scenarios", path, prompts=["refund"] * 3)

    assert [line for line in ran.stderr.splitlines() if "warning: " in line] == [
        "llm-proxy: warning: POST /v1/chat/completions: Expected tools not available: lookup",
        f"llm-proxy: warning: 3 requests matched no scenario or failed a check; {SEE_ABOVE}",
        "llm-proxy: warning:   Expected tools not available: lookup: 3 times",
    ]


@pytest.mark.shows("000-98")
async def test_failures_that_a_scenario_asks_for_do_not_fail_a_strict_run(
    tmp_path: Path,
) -> None:
    failing_scenario = scenario_document(text_turn(failuresBeforeSuccess=1), name="fails")
    report = {"kind": "final-report", "reportContent": "No.", "status": "failure"}
    path = write_scenarios(
        tmp_path, failing_scenario, scenario_document({"response": report}, name="reports")
    )

    prompts = ["fails", "fails", "reports"]
    ran, statuses = await run_simulate(
        tmp_path, "--scenarios", str(path), "--strict", prompts=prompts
    )

    assert (ran.exit_code, statuses) == (0, [500, 200, 200])


@pytest.mark.shows("004-07")
async def test_a_mock_that_runs_out_of_replies_fails_a_strict_run(tmp_path: Path) -> None:
    ran, statuses = await run_simulate(
        tmp_path, "--mock", "{replies: [One.]}", "--strict", prompts=["Hi", "Hi", "Hi"]
    )

    assert (ran.exit_code, statuses) == (1, [200, 424, 424])
    assert "this is request 3" in ran.stderr


@pytest.mark.shows("001-06", "001-44")
async def test_the_command_enables_simulation_and_a_variable_sets_its_scenarios(
    tmp_path: Path,
) -> None:
    write_scenarios(tmp_path, scenario_document(text_turn()))
    env = {"LLM_PROXY_SCENARIOS": "scenarios.json", "LLM_PROXY_STRICT": "1"}

    plain, statuses = await run_simulate(tmp_path, prompts=["anything"])
    configured, _ = await run_requests(
        "simulate", *INSTANT, folder=tmp_path, env=env, requests=[raw_chat_request("anything")]
    )

    assert (plain.exit_code, statuses) == (0, [200])
    assert configured.exit_code == 1
    assert "Scenario not found: anything." in configured.stderr


@pytest.mark.shows("001-07", "001-44")
async def test_the_host_and_the_log_format_can_be_set(tmp_path: Path) -> None:
    options = ("--host", "127.0.0.1", "--log-format", "json", *INSTANT)
    async with running_server("simulate", *options, folder=tmp_path) as running:
        raw = await send_request(running.url, raw_chat_request("Hi"))
        running.process.send_signal(15)
        ran = await running.wait_for_end()

    assert (raw.status, ran.exit_code) == (200, 0)
    assert raw.body.endswith(b"data: [DONE]\n\n")
    assert '"message":"POST /v1/chat/completions: synthesis: text"' in ran.stderr


@pytest.mark.shows("001-08")
async def test_replay_with_scenarios_plays_what_is_not_on_disk(tmp_path: Path) -> None:
    write_cassettes(tmp_path, raw_chat_request("recorded"), chat_answer("hello"))
    path = str(write_scenarios(tmp_path, scenario_document(text_turn())))
    requests = [raw_chat_request("refund")]

    with_them, played = await run_requests(
        "replay", *INSTANT, "--strict", "--scenarios", path, folder=tmp_path, requests=requests
    )
    without, missed = await run_requests("replay", "--strict", folder=tmp_path, requests=requests)

    assert (with_them.exit_code, played) == (0, [200])
    assert (without.exit_code, missed) == (1, [424])


RESPONDER = "def respond(cue):\n    return 'Hi.'\n"


@each_row(
    ("arguments", "env", "file"),
    [
        (("--mock", "{reply: Hi.}"), {}, ""),
        (("--respond", "answers:respond"), {}, ""),
        ((), {"LLM_PROXY_MOCK": "{reply: Hi.}"}, ""),
        ((), {}, 'respond = "answers:respond"\n'),
    ],
    ids=["mock", "respond", "environment", "settings file"],
)
async def test_replay_with_a_mock_or_a_function_answers_what_is_not_on_disk(
    tmp_path: Path, arguments: tuple[str, ...], env: dict[str, str], file: str
) -> None:
    (tmp_path / "answers.py").write_text(RESPONDER)
    (tmp_path / "llm-proxy.toml").write_text(file)

    ran, statuses = await run_requests(
        "replay", *INSTANT, *arguments, folder=tmp_path, env=env, requests=[raw_chat_request("Hi")]
    )

    assert (ran.exit_code, statuses) == (0, [200])
    assert "has no effect" not in ran.stderr


async def test_a_mock_that_has_no_effect_is_reported_at_the_start(tmp_path: Path) -> None:
    options = ("--on-miss", "fail", "--mock", "{reply: Hi.}")
    ran, statuses = await run_requests(
        "replay", *options, folder=tmp_path, requests=[raw_chat_request("Hi")]
    )

    assert statuses == [424]
    assert "--mock has no effect without --on-miss scenario" in ran.stderr


async def test_on_miss_scenario_makes_answers_up_where_there_are_no_scenarios(
    tmp_path: Path,
) -> None:
    options = ("--on-miss", "scenario")
    ran, statuses = await run_requests(
        "auto", *INSTANT, *options, folder=tmp_path, requests=[raw_chat_request("Hi")]
    )

    assert (ran.exit_code, statuses) == (0, [200])
    assert "synthesis: text" in ran.stderr


@pytest.mark.shows("000-27")
async def test_on_unknown_synthesis_makes_up_what_no_scenario_answers(tmp_path: Path) -> None:
    path = str(write_scenarios(tmp_path, scenario_document(text_turn())))

    ran, statuses = await run_simulate(
        tmp_path, "--scenarios", path, "--on-unknown", "synthesis", "--strict", prompts=["else"]
    )

    assert (ran.exit_code, statuses) == (0, [200])


@pytest.mark.shows("004-09")
async def test_a_function_is_found_in_the_working_folder_and_its_traceback_in_the_log(
    tmp_path: Path,
) -> None:
    (tmp_path / "answers.py").write_text("def respond(cue):\n    return {}['missing']\n")

    ran, statuses = await run_simulate(tmp_path, "--respond", "answers:respond", "--strict")

    assert (ran.exit_code, statuses) == (1, [500])
    assert "the --respond function failed: KeyError: 'missing'" in ran.stderr
    assert "Traceback (most recent call last):" in ran.stderr
    assert "return {}['missing']" in ran.stderr


@pytest.mark.shows("004-13")
@each_row(
    ("arguments", "expected_error"),
    [
        (("--mock", "{reply"), "--mock:2:1: missing comma or }"),
        (("--mock", "{replys: [x]}"), "unknown field 'replys'; did you mean 'reply'?"),
        (("--mock", "{chunk_delay_ms: [80, 30]}"), "chunk_delay_ms"),
        (("--mock", "Hello"), "--mock"),
        (("--respond", "answers"), "expected MODULE:NAME, such as answers:respond"),
        (("--scenarios", "nowhere"), "no such file or folder: nowhere"),
        (("--on-unknown", "guess"), "'guess' is not one of error, synthesis"),
        (("--on-mismatch", "fail"), "'fail' is not one of auto, report, error"),
        (("--silence", "0"), "'0' is not a positive number of seconds"),
    ],
)
async def test_a_mistake_is_reported_before_anything_runs(
    tmp_path: Path, arguments: tuple[str, ...], expected_error: str
) -> None:
    ran = await run_command("simulate", *arguments, folder=tmp_path)

    assert (ran.exit_code, ran.stdout) == (2, "")
    assert expected_error in ran.stderr
    assert "Traceback" not in ran.stderr


async def test_every_mistake_of_the_files_is_reported_at_the_start(tmp_path: Path) -> None:
    invalid_turn = text_turn() | {"respones": 1}
    path = write_scenarios(tmp_path, scenario_document(invalid_turn, text_turn() | {"turn": "two"}))

    ran = await run_command("simulate", "--scenarios", str(path), folder=tmp_path)

    assert ran.exit_code == 2
    assert "2 errors in the scenarios of " in ran.stderr
    assert (
        "$[0].turns[0].respones: unknown field 'respones'; did you mean 'response'?" in ran.stderr
    )
    assert "$[0].turns[1].turn:" in ran.stderr
