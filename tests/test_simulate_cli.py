"""`llm-proxy simulate` at the command line, and scenarios beside the cassettes of other modes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from cli_process import Ran, run, serving
from raw_http import ask
from scenario_server import JsonObject, says, script, write
from stored_cassettes import chat, put
from stored_cassettes import says as told

APPLICATION = """
import os, sys, urllib.error, urllib.request
for said in sys.argv[1:]:
    body = b'{"model":"m","messages":[{"role":"user","content":"%s"}]}' % said.encode()
    asked = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body)
    asked.add_header("Content-Type", "application/json")
    asked.add_header("Authorization", "Bearer " + os.environ["OPENAI_API_KEY"])
    try:
        urllib.request.urlopen(asked).read()
        print("fine")
    except urllib.error.HTTPError as error:
        print(error.code)
"""
"""An application to which every answer is as good as any other."""


def application(*said: str) -> list[str]:
    return ["--", sys.executable, "-c", APPLICATION, *said]


async def simulated(folder: Path, *arguments: str, said: Sequence[str] = ("refund",)) -> Ran:
    return await run("simulate", *arguments, *application(*said), folder=folder)


UNEQUIPPED: JsonObject = script(says(expectedTools=["lookup"]))


@pytest.mark.shows("000-98")
@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("refund", "Expected tools not available: lookup"),
        ("refunds", "Scenario not found: refunds. The nearest: refund."),
    ],
)
async def test_a_strict_run_fails_though_the_application_swallowed_it(
    tmp_path: Path, said: str, why: str
) -> None:
    path = str(write(tmp_path, UNEQUIPPED))

    strict = await simulated(tmp_path, "--scenarios", path, "--strict", said=[said])

    assert (strict.code, strict.out) == (1, "fine\n")
    assert why in strict.err
    assert "not as scripted: 1 request" in strict.err


async def test_a_run_that_is_not_strict_warns(tmp_path: Path) -> None:
    ran = await simulated(tmp_path, "--scenarios", str(write(tmp_path, UNEQUIPPED)))

    assert (ran.code, ran.out) == (0, "fine\n")
    assert "Expected tools not available: lookup" in ran.err


@pytest.mark.shows("000-98")
async def test_failures_that_a_scenario_asks_for_do_not_fail_a_strict_run(
    tmp_path: Path,
) -> None:
    fails = script(says(failuresBeforeSuccess=1), name="fails")
    report = {"kind": "final-report", "reportContent": "No.", "status": "failure"}
    path = write(tmp_path, fails, script({"response": report}, name="reports"))

    said = ["fails", "fails", "reports"]
    ran = await simulated(tmp_path, "--scenarios", str(path), "--strict", said=said)

    assert (ran.code, ran.out) == (0, "500\nfine\nfine\n")


@pytest.mark.shows("004-07")
async def test_a_mock_that_is_asked_too_often_fails_a_strict_run(tmp_path: Path) -> None:
    ran = await simulated(
        tmp_path, "--mock", "{replies: [One.]}", "--strict", said=["Hi", "Hi", "Hi"]
    )

    assert (ran.code, ran.out) == (1, "fine\n424\n424\n")
    assert "this is call 3" in ran.err


@pytest.mark.shows("001-06", "001-44")
async def test_the_command_is_all_that_switches_it_on_and_a_variable_sets_what_it_plays(
    tmp_path: Path,
) -> None:
    write(tmp_path, script(says()))
    env = {"LLM_PROXY_SCENARIOS": "scenarios.json", "LLM_PROXY_STRICT": "1"}

    plain = await simulated(tmp_path, said=["anything"])
    set_ = await run("simulate", *application("anything"), folder=tmp_path, env=env)

    assert (plain.code, plain.out) == (0, "fine\n")
    assert set_.code == 1
    assert "Scenario not found: anything." in set_.err


@pytest.mark.shows("001-07", "001-44")
async def test_it_listens_where_it_is_told_and_its_log_can_be_json(tmp_path: Path) -> None:
    about = ("--host", "127.0.0.1", "--log-format", "json", "--pace", "instant")
    async with serving("simulate", *about, folder=tmp_path) as running:
        raw = await ask(running.url, chat("Hi"))
        running.process.send_signal(15)
        ran = await running.ended()

    assert (raw.status, ran.code) == (200, 0)
    assert raw.body.endswith(b"data: [DONE]\n\n")
    assert '"message":"POST /v1/chat/completions: synthesis: text"' in ran.err


@pytest.mark.shows("001-08")
async def test_replay_with_scenarios_plays_what_is_not_on_disk(tmp_path: Path) -> None:
    put(tmp_path, chat("recorded"), told("hello"))
    path = str(write(tmp_path, script(says())))
    said = ("refund",)

    with_them = await run(
        "replay", "--strict", "--scenarios", path, *application(*said), folder=tmp_path
    )
    without = await run("replay", "--strict", *application(*said), folder=tmp_path)

    assert (with_them.code, with_them.out) == (0, "fine\n")
    assert (without.code, without.out) == (1, "424\n")


ANSWERS = "def respond(cue):\n    return 'Hi.'\n"


@pytest.mark.parametrize(
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
    (tmp_path / "answers.py").write_text(ANSWERS)
    (tmp_path / "llm-proxy.toml").write_text(file)

    ran = await run("replay", *arguments, *application("Hi"), folder=tmp_path, env=env)

    assert (ran.code, ran.out) == (0, "fine\n")
    assert "has no effect" not in ran.err


async def test_a_mock_that_on_miss_fail_leaves_idle_is_told_at_the_start(tmp_path: Path) -> None:
    options = ("--on-miss", "fail", "--mock", "{reply: Hi.}")
    ran = await run("replay", *options, *application("Hi"), folder=tmp_path)

    assert ran.out == "424\n"
    assert "--mock has no effect: nothing is simulated in this run" in ran.err


async def test_on_miss_scenario_makes_answers_up_where_there_are_no_scenarios(
    tmp_path: Path,
) -> None:
    ran = await run("auto", "--on-miss", "scenario", *application("Hi"), folder=tmp_path)

    assert (ran.code, ran.out) == (0, "fine\n")
    assert "synthesis: text" in ran.err


@pytest.mark.shows("000-27")
async def test_on_unknown_synthesis_makes_up_what_no_scenario_answers(tmp_path: Path) -> None:
    path = str(write(tmp_path, script(says())))

    ran = await simulated(
        tmp_path, "--scenarios", path, "--on-unknown", "synthesis", "--strict", said=["else"]
    )

    assert (ran.code, ran.out) == (0, "fine\n")


@pytest.mark.shows("004-09")
async def test_a_function_is_found_in_the_working_folder_and_its_traceback_in_the_log(
    tmp_path: Path,
) -> None:
    (tmp_path / "answers.py").write_text("def respond(cue):\n    return {}['missing']\n")

    ran = await simulated(tmp_path, "--respond", "answers:respond", "--strict")

    assert (ran.code, ran.out) == (1, "500\n")
    assert "respond failed: KeyError: 'missing'" in ran.err
    assert "Traceback (most recent call last):" in ran.err
    assert "return {}['missing']" in ran.err


@pytest.mark.shows("004-13")
@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--mock", "{reply"), "--mock:2:1: a comma or a } is missing"),
        (("--mock", "{replys: [x]}"), "there is no such field; did you mean reply?"),
        (("--mock", "{chunk_delay_ms: [80, 30]}"), "chunk_delay_ms"),
        (("--mock", "Hello"), "--mock"),
        (("--respond", "answers"), "write MODULE:FUNCTION, such as answers:respond"),
        (("--scenarios", "nowhere"), "there is no file or folder nowhere"),
        (("--on-unknown", "guess"), "'guess' is not one of error, synthesis"),
        (("--silence", "0"), "'0' is not a number of seconds above 0"),
    ],
)
async def test_a_mistake_is_told_before_anything_runs(
    tmp_path: Path, arguments: tuple[str, ...], why: str
) -> None:
    ran = await simulated(tmp_path, *arguments)

    assert (ran.code, ran.out) == (2, "")
    assert why in ran.err
    assert "Traceback" not in ran.err


async def test_every_mistake_of_the_files_is_told_at_the_start(tmp_path: Path) -> None:
    wrong = says() | {"respones": 1}
    path = write(tmp_path, script(wrong, says() | {"turn": "two"}))

    ran = await simulated(tmp_path, "--scenarios", str(path))

    assert ran.code == 2
    assert "have 2 mistakes:" in ran.err
    assert "$[0].turns[0].respones: there is no such field; did you mean response?" in ran.err
    assert "$[0].turns[1].turn:" in ran.err
