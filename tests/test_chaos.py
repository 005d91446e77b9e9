"""`llm-proxy chaos` runs a command once for each fault and reports defects of the client.

The sample application is `chaos_app`; its defects are marked with the rules that find them.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import shutil
import signal
import sys
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from cli_process import CommandResult, environment, run_command, running_command
from conftest import AdvanceClock
from in_process_proxy import settings
from journal_documents import fault_entry, journal_document, request_entry
from llm_proxy.chaos import ChaosRun, FaultTrial, TrialOutcome, fault_plan
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.grammar import parse_rule
from llm_proxy.faults.kinds import FAULT_KINDS
from llm_proxy.journal_document import parse_journal
from llm_proxy.shell.running import chaos as shell_chaos
from llm_proxy.shell.running.chaos import CommandOutput, TrialCommand, run_trials
from llm_proxy.verdict.findings import FindingLevel
from waiting import wait_for_first_line

APP: Final = Path(__file__).parent / "chaos_app"
MOCK: Final = "{reply: Red and green and blue and yellow and white., chunk_delay_ms: 60}"
PYTEST: Final = (
    sys.executable, "-m", "pytest", "-q", "--noconftest", "-c", "/dev/null", "-p",
    "no:cacheprovider", "chaos_app/check_chat.py",
)  # fmt: skip
"""Runs the tests of the sample application."""
SINGLE_REQUEST: Final = (sys.executable, "-c", "from chaos_app.chat import ask; assert ask()")
"""Sends the same request as the tests, without the start-up time of pytest."""

EXPECTED_FINDINGS: Final = {
    "status,code=429,retry-after=1s,first=1": {"too-soon"},
    "status,code=503": {"no-backoff", "retry-storm", "gave-up"},
    "truncate,after=4": {"truncated-accepted"},
    "malformed-json,after=2": {"malformed-accepted"},
    "drop,after=2": set[str](),
    "stall,after=2,first=1": {"no-read-timeout"},
}
"""The rules with findings, by fault."""


async def run_chaos(
    folder: Path, *arguments: str, careful: bool = False, command: Sequence[str] = SINGLE_REQUEST
) -> CommandResult:
    """Run `llm-proxy chaos` with these options."""
    shutil.copytree(APP, folder / "chaos_app", ignore=shutil.ignore_patterns("__pycache__"))
    command_line = ("chaos", "--mock", MOCK, "--silence", "1.5", *arguments)
    env = {"CAREFUL": "1"} if careful else {}
    return await run_command(*command_line, "--", *command, folder=folder, env=env, timeout_s=120)


def fault_options(*faults: str) -> list[str]:
    """The options that select these faults."""
    return [option for fault in faults for option in ("--fault", fault)]


def finding_rules(trial: dict[str, Any]) -> set[str]:
    """The rules with a finding."""
    return {finding["rule"] for finding in trial["verdict"]["findings"]}


@pytest.mark.parametrize(
    ("faults", "command"),
    [
        pytest.param(["status,code=503"], SINGLE_REQUEST, id="one"),
        pytest.param(list(EXPECTED_FINDINGS), PYTEST, id="all", marks=pytest.mark.thorough),
    ],
)
async def test_it_finds_the_defects_of_a_client(
    tmp_path: Path, faults: list[str], command: Sequence[str]
) -> None:
    options = (*fault_options(*faults), "--pace", "recorded", "--json")
    result = await run_chaos(tmp_path, *options, command=command)
    document = json.loads(result.stdout)
    baseline, *trials = document["trials"]
    assert (baseline["fault"], baseline["outcome"], baseline["requests"]) == (
        "no fault", "passed", 1,
    )  # fmt: skip
    assert {trial["fault"]: finding_rules(trial) for trial in trials} == {
        fault: EXPECTED_FINDINGS[fault] for fault in faults
    }
    assert {trial["fault"]: trial["outcome"] for trial in trials} == dict.fromkeys(
        faults, "passed"
    ) | {"status,code=503": "failed"}
    assert (result.exit_code, document["ok"], document["planned"]) == (1, False, len(faults))


@pytest.mark.parametrize(
    "faults",
    [
        pytest.param(["truncate,after=4"], id="one"),
        pytest.param(list(EXPECTED_FINDINGS), id="all", marks=pytest.mark.thorough),
    ],
)
async def test_a_client_that_behaves_passes_under_each_fault(
    tmp_path: Path, faults: list[str]
) -> None:
    rules = [f"{rule},first=1" if "first" not in rule else rule for rule in faults]
    rules.append("refuse,window=300ms")
    result = await run_chaos(
        tmp_path,
        *fault_options(*rules),
        "--json",
        "--survive",
        careful=True,
    )
    document = json.loads(result.stdout)
    assert [finding_rules(trial) for trial in document["trials"]] == [set()] * (1 + len(rules))
    assert document["trials"][-1]["injected"] > 0
    assert {trial["outcome"] for trial in document["trials"]} == {"passed"}
    assert (result.exit_code, document["ok"]) == (0, True)


async def test_the_table_lists_each_fault_its_outcome_and_the_verdict(tmp_path: Path) -> None:
    result = await run_chaos(tmp_path, *fault_options("truncate,after=4", "drop,after=99"))
    header, *rows = [line.split("  ") for line in result.stdout.splitlines() if line]
    assert [head.strip() for head in header if head] == [
        "FAULT", "OUTCOME", "REQUESTS", "SECONDS", "VERDICT",
    ]  # fmt: skip
    assert [rows[n][0] for n in range(3)] == ["no fault", "truncate,after=4", "drop,after=99"]
    assert "warning truncated-accepted" in result.stdout
    assert "not injected: the body contained" in result.stdout
    assert "Advice: check that each response is complete" in result.stdout
    assert result.last_error_line == (
        "llm-proxy: 2 faults tried: 1 passed, 1 not injected; 1 fault not handled"
    )
    assert result.exit_code == 1


async def test_a_command_that_fails_without_any_fault_is_not_tried(tmp_path: Path) -> None:
    command_line = (sys.executable, "-c", "print('no key'); raise SystemExit(3)")
    result = await run_chaos(tmp_path, command=command_line)
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-2:] == [
        (
            "llm-proxy: error: the command failed (exit code 3) even without a fault; fix the "
            "command first; output:"
        ),
        "  no key",
    ]


async def test_a_command_that_sends_no_request_gets_a_hint(tmp_path: Path) -> None:
    result = await run_chaos(tmp_path, command=(sys.executable, "-c", ""))
    assert result.exit_code == 1
    assert "check that the command reads OPENAI_BASE_URL, or " in result.last_error_line


async def test_there_must_be_a_command(tmp_path: Path) -> None:
    result = await run_command("chaos", folder=tmp_path)
    assert (result.exit_code, result.last_error_line) == (
        2,
        "llm-proxy: error: COMMAND is missing; for example: llm-proxy chaos -- pytest tests/",
    )


REQUEST_SCRIPT: Final = """
import os, sys, time, urllib.request
body = b'{"model": "m", "messages": [{"role": "user", "content": "Hi"}]}'
url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
try:
    urllib.request.urlopen(request, timeout=10).read()
except OSError:
    print("failed", file=open("failed", "w"), flush=True)
    time.sleep(60)
"""


async def test_a_command_that_does_not_end_is_stopped_and_counts_as_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, advance_clock: AdvanceClock
) -> None:
    monkeypatch.chdir(tmp_path)
    command = TrialCommand((sys.executable, "-c", REQUEST_SCRIPT), TIME_LIMIT_S)
    scripted = settings(tmp_path, mock=MOCK, on_miss="scenario")

    async def run() -> tuple[FaultTrial, ...]:
        async with aclosing(run_trials(scripted, command, [parse_rule("reset")])) as trials:
            return tuple([trial async for trial in trials])

    running = asyncio.ensure_future(run())
    await wait_for_first_line(tmp_path / "failed")
    advance_clock(TIME_LIMIT_S)
    trials = await running
    chaos_run = ChaosRun(
        command.arguments, trials, FindingLevel.ERROR, must_survive=False, planned_count=1
    )
    assert [trial.outcome for trial in trials] == [TrialOutcome.PASSED, TrialOutcome.HUNG]
    assert chaos_run.failed_trials == trials[1:]


async def test_a_command_that_does_not_end_without_any_fault_is_not_tried(tmp_path: Path) -> None:
    result = await run_chaos(tmp_path, "--timeout", "0.2", command=("sleep", "600"))
    assert result.exit_code == 1
    assert (
        "the command hung (stopped after 0 s) even without a fault; fix the command first"
        in result.stderr
    )


async def test_ctrl_c_ends_it_with_what_has_been_tried(tmp_path: Path) -> None:
    command_line = (
        "chaos",
        "--mock",
        MOCK,
        *fault_options("reset"),
        "--",
        sys.executable,
        "-c",
        REQUEST_SCRIPT,
    )
    async with running_command(*command_line, folder=tmp_path) as running:
        await wait_for_first_line(tmp_path / "failed")
        running.send(signal.SIGINT)
        result = await running.wait_for_end()
    assert result.exit_code == 130
    assert result.last_error_line == "llm-proxy: 0 faults tried; 1 not tried"


IGNORES_SIGTERM: Final = """
import os, signal, sys, time
def write_pid(name):
    print(os.getpid(), file=open(name, "w"), flush=True)
signal.signal(signal.SIGTERM, lambda *_: write_pid("sigterm"))
write_pid("started")
while True:
    time.sleep(600)
"""
"""A process that only SIGKILL ends; it writes a file at its start, and one at SIGTERM."""
LEAVES_A_CHILD: Final = f"""
import os, subprocess, sys, time
subprocess.Popen([sys.executable, "-c", {IGNORES_SIGTERM!r}])
while not (os.path.exists("started") and open("started").read().strip()):
    time.sleep(0.01)
{{}}
"""
TIME_LIMIT_S: Final = 600.0
"""The time limit of a command; a test that waits for it advances the clock of the event loop."""


def has_ended(process: int) -> bool:
    """Whether a process, which has had its signal, ends; a zombie has ended."""
    try:
        descriptor = os.pidfd_open(process)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], 20)[0])
    finally:
        os.close(descriptor)


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="waits for a process by Linux's pidfd")
@pytest.mark.parametrize(
    ("then", "code_and_timed_out"),
    [("raise SystemExit(3)", (3, False)), ("time.sleep(600)", (128 + signal.SIGTERM, True))],
    ids=["ends", "hangs"],
)
async def test_nothing_is_left_of_what_a_command_has_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, advance_clock: AdvanceClock,
    then: str, code_and_timed_out: tuple[int, bool],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(shell_chaos, "_TERMINATE_TIMEOUT_S", 0.1)
    command = TrialCommand((sys.executable, "-c", LEAVES_A_CHILD.format(then)), TIME_LIMIT_S)
    with (tmp_path / "output").open("w+b") as file:
        running = asyncio.ensure_future(
            shell_chaos._run_command(command, environment(tmp_path), CommandOutput(file))
        )
        pid = int(await wait_for_first_line(tmp_path / "started"))
        if code_and_timed_out[1]:
            advance_clock(TIME_LIMIT_S)
        assert await running == code_and_timed_out
    assert has_ended(pid)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="tells processes by /proc")
async def test_nothing_is_left_where_ctrl_c_comes_twice(tmp_path: Path) -> None:
    command_line = (sys.executable, "-c", IGNORES_SIGTERM)
    async with running_command(
        "chaos", "--mock", MOCK, "--", *command_line, folder=tmp_path
    ) as running:
        await wait_for_first_line(tmp_path / "started")
        running.send(signal.SIGINT)
        await wait_for_first_line(tmp_path / "sigterm")
        running.send(signal.SIGINT)
        result = await running.wait_for_end()
    assert result.exit_code == 130
    assert has_ended(int((tmp_path / "started").read_text()))


async def test_what_a_command_prints_cannot_steer_a_terminal(tmp_path: Path) -> None:
    command_line = (sys.executable, "-c", "print('\033]0;mine\007'); raise SystemExit(3)")
    result = await run_chaos(tmp_path, command=command_line)
    assert "mine" in result.last_error_line
    assert "\033" not in result.stderr


def test_what_a_command_prints_does_not_fill_the_disk(tmp_path: Path) -> None:
    with (tmp_path / "output").open("w+b") as file, (tmp_path / "output").open("ab") as writer:
        output = CommandOutput(file, max_bytes=10_000)
        for number in range(40):
            writer.write(b"%9000d" % number)
            writer.flush()
            output.trim_if_large()
            assert file.seek(0, 2) <= 10_000
        assert file.seek(0, 2) == 0
        assert output.last_output() == f"{39:8192}"


async def test_a_command_that_prints_much_is_reported_by_its_last_output(tmp_path: Path) -> None:
    with (tmp_path / "output").open("w+b") as file:
        output = CommandOutput(file, max_bytes=10_000)
        # The last line is printed only when the file was truncated.
        script = (
            "import os, time\n"
            "print('x' * 20_000, flush=True)\n"
            "while os.fstat(1).st_size: time.sleep(0.01)\n"
            "print('last line', flush=True)"
        )
        command = TrialCommand((sys.executable, "-c", script), 60.0)
        assert await shell_chaos._run_command(command, environment(tmp_path), output) == (0, False)
        assert file.seek(0, 2) == len("last line\n")
        assert output.last_output().endswith("xxx\nlast line\n")


def test_a_fault_counts_only_where_its_own_rule_was_injected() -> None:
    scripted = request_entry(
        1, 0, status=500, simulated={"source": "s, turn 1", "failure": "model_error"}
    )
    other = request_entry(2, 900, fault_entry(FaultEffect.CUT, rule="reset"))
    skipped = request_entry(
        3, 1800, fault_entry(FaultEffect.CUT, rule="truncate", skipped="no body")
    )
    run = parse_journal(journal_document(scripted, other, skipped), "a test")
    trial = FaultTrial(
        "truncate", 0, 1.0, is_timed_out=False, journal=run, miss_count=0, output_tail=""
    )
    assert (trial.injected_count, trial.outcome, trial.outcome_with_reason) == (
        0,
        TrialOutcome.NOT_INJECTED,
        "not injected: no body",
    )
    assert replace(trial, rule_text="reset").injected_count == 1


def test_every_fault_is_tried_where_none_is_chosen() -> None:
    assert [rule.kind.name for rule in fault_plan(())] == [
        kind.name for kind in FAULT_KINDS.values() if kind.example
    ]
    rules = (parse_rule("reset"),)
    assert fault_plan(rules) == rules
