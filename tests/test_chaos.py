"""`llm-proxy chaos`: a command, run once for each fault, and what it finds in a sample application.

The application is `chaos_app`; its weaknesses are marked there with the rules that find them.
"""

from __future__ import annotations

import json
import shutil
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from cli_process import Ran, environment, run, started
from journal_documents import document, entry, fault
from llm_proxy.chaos.plan import fault_plan
from llm_proxy.chaos.trials import FaultTrial, TrialOutcome
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.grammar import parse_rule
from llm_proxy.faults.kinds import KINDS
from llm_proxy.shell.running import chaos as shell_chaos
from llm_proxy.shell.running.command_output import CommandOutput
from llm_proxy.verdict.attempts import parse_run
from waiting import appeared

APP: Final = Path(__file__).parent / "chaos_app"
MOCK: Final = "{reply: Red and green and blue and yellow and white., chunk_delay_ms: 60}"
PYTEST: Final = (
    sys.executable, "-m", "pytest", "-q", "--noconftest", "-c", "/dev/null", "-p",
    "no:cacheprovider", "chaos_app/check_chat.py",
)  # fmt: skip
"""The tests of the sample application."""
ONCE: Final = (sys.executable, "-c", "from chaos_app.chat import ask; assert ask()")
"""What they test, without the time that pytest takes."""

PLANTED: Final = {
    "status,code=429,retry-after=1s,first=1": {"too-soon"},
    "status,code=503": {"no-backoff", "retry-storm", "gave-up"},
    "truncate,after=4": {"truncated-accepted"},
    "malformed-json,after=2": {"malformed-accepted"},
    "drop,after=2": set[str](),
    "stall,after=2,first=1": {"no-read-timeout"},
}
"""What each fault brings to light."""


async def chaos(
    folder: Path, *words: str, careful: bool = False, command: Sequence[str] = PYTEST
) -> Ran:
    """A run over these faults and options."""
    shutil.copytree(APP, folder / "chaos_app", ignore=shutil.ignore_patterns("__pycache__"))
    given = ("chaos", "--mock", MOCK, "--pace", "recorded", "--silence", "1.5", *words)
    env = {"CAREFUL": "1"} if careful else {}
    return await run(*given, "--", *command, folder=folder, env=env, within=120)


def under(*faults: str) -> list[str]:
    """The options that try these faults."""
    return [item for fault in faults for item in ("--fault", fault)]


def found(trial: dict[str, Any]) -> set[str]:
    """The rules with a finding."""
    return {finding["rule"] for finding in trial["verdict"]["findings"]}


@pytest.mark.long
async def test_it_finds_what_is_wrong_with_a_client(tmp_path: Path) -> None:
    ran = await chaos(tmp_path, *under(*PLANTED), "--json")
    document = json.loads(ran.out)
    baseline, *trials = document["trials"]
    assert (baseline["fault"], baseline["outcome"], baseline["requests"]) == (
        "no fault", "passed", 1,
    )  # fmt: skip
    assert {trial["fault"]: found(trial) for trial in trials} == PLANTED
    assert {trial["fault"]: trial["outcome"] for trial in trials} == dict.fromkeys(
        PLANTED, "passed"
    ) | {"status,code=503": "failed"}
    assert (ran.code, document["ok"], document["planned"]) == (1, False, len(PLANTED))


@pytest.mark.long
async def test_a_client_that_behaves_passes_under_each_fault(tmp_path: Path) -> None:
    rules = [f"{item},first=1" if "first" not in item else item for item in PLANTED]
    rules.append("refuse,window=300ms")
    ran = await chaos(tmp_path, *under(*rules), "--json", "--survive", careful=True, command=ONCE)
    document = json.loads(ran.out)
    assert [found(trial) for trial in document["trials"]] == [set()] * (1 + len(rules))
    assert document["trials"][-1]["struck"] > 0
    assert {trial["outcome"] for trial in document["trials"]} == {"passed"}
    assert (ran.code, document["ok"]) == (0, True)


async def test_the_table_tells_each_fault_its_outcome_and_the_verdict(tmp_path: Path) -> None:
    ran = await chaos(tmp_path, *under("truncate,after=4", "drop,after=99"), command=ONCE)
    heads, *rows = [line.split("  ") for line in ran.out.splitlines() if line]
    assert [head.strip() for head in heads if head] == [
        "FAULT", "OUTCOME", "REQUESTS", "SECONDS", "VERDICT",
    ]  # fmt: skip
    assert [rows[n][0] for n in range(3)] == ["no fault", "truncate,after=4", "drop,after=99"]
    assert "warning truncated-accepted" in ran.out
    assert "not struck: the body had" in ran.out
    assert "What to do: use no answer without its end" in ran.out
    assert ran.complaint == (
        "llm-proxy: 2 faults tried: 1 passed, 1 not struck; 1 trial with something wrong"
    )
    assert ran.code == 1


async def test_a_command_that_fails_without_any_fault_is_not_tried(tmp_path: Path) -> None:
    words = (sys.executable, "-c", "print('no key'); raise SystemExit(3)")
    ran = await chaos(tmp_path, command=words)
    assert ran.code == 1
    assert ran.err.splitlines()[-2:] == [
        "llm-proxy: without any fault the command failed, exit 3: mend that first; it printed",
        "  no key",
    ]


async def test_a_command_that_asks_nothing_is_told_why(tmp_path: Path) -> None:
    ran = await chaos(tmp_path, command=(sys.executable, "-c", ""))
    assert ran.code == 1
    assert "does it read OPENAI_BASE_URL" in ran.complaint


async def test_there_must_be_a_command(tmp_path: Path) -> None:
    ran = await run("chaos", folder=tmp_path)
    assert (ran.code, ran.complaint) == (
        2,
        "llm-proxy: chaos runs a command: llm-proxy chaos -- pytest tests/",
    )


ASKS: Final = """
import os, sys, time, urllib.request
body = b'{"model": "m", "messages": [{"role": "user", "content": "Hi"}]}'
url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
asked = urllib.request.Request(url, body, {"Content-Type": "application/json"})
try:
    urllib.request.urlopen(asked, timeout=10).read()
except OSError:
    print("struck", file=open("struck", "w"), flush=True)
    time.sleep(60)
"""


async def test_a_command_that_does_not_end_is_stopped_and_counts_as_wrong(tmp_path: Path) -> None:
    words = (sys.executable, "-c", ASKS)
    options = (*under("reset"), "--timeout", "1.5", "--level", "error", "--json")
    ran = await chaos(tmp_path, *options, command=words)
    trial = json.loads(ran.out)["trials"][1]
    assert (ran.code, trial["outcome"]) == (1, "hung")


async def test_ctrl_c_ends_it_with_what_has_been_tried(tmp_path: Path) -> None:
    words = ("chaos", "--mock", MOCK, *under("reset"), "--", sys.executable, "-c", ASKS)
    async with started(*words, folder=tmp_path) as running:
        await appeared(tmp_path / "struck")
        running.send(signal.SIGINT)
        ran = await running.ended()
    assert ran.code == 130
    assert ran.complaint == "llm-proxy: 0 faults tried: none; nothing wrong; 1 not tried"


GOES_ON: Final = """
import os, signal, sys, time, urllib.request
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(os.getpid(), file=open(sys.argv[1], "w"), flush=True)
time.sleep(600)
"""
"""A process that ends for nothing but a kill, and says who it is in a file."""
LEAVES: Final = f"""
import os, subprocess, sys, time
subprocess.Popen([sys.executable, "-c", {GOES_ON!r}, "left"])
while not (os.path.exists("left") and open("left").read().strip()):
    time.sleep(0.01)
{{}}
"""


def is_gone(process: int) -> bool:
    """Whether a process runs no more; one that nobody has buried is gone too."""
    try:
        return "State:\tZ" in Path(f"/proc/{process}/status").read_text()
    except FileNotFoundError:
        return True


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="tells processes by /proc")
@pytest.mark.parametrize("then", ["raise SystemExit(3)", "time.sleep(600)"])
async def test_nothing_is_left_of_what_a_command_has_started(tmp_path: Path, then: str) -> None:
    words = (sys.executable, "-c", LEAVES.format(then))
    ran = await chaos(tmp_path, "--timeout", "1", command=words)
    assert "without any fault the command" in ran.err
    assert is_gone(int((tmp_path / "left").read_text()))


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="tells processes by /proc")
async def test_nothing_is_left_where_ctrl_c_comes_twice(tmp_path: Path) -> None:
    words = (sys.executable, "-c", GOES_ON, str(tmp_path / "left"))
    async with started("chaos", "--mock", MOCK, "--", *words, folder=tmp_path) as running:
        await appeared(tmp_path / "left")
        running.send(signal.SIGINT)
        running.send(signal.SIGINT)
        ran = await running.ended()
    assert ran.code == 130
    assert is_gone(int((tmp_path / "left").read_text()))


async def test_what_a_command_prints_cannot_steer_a_terminal(tmp_path: Path) -> None:
    words = (sys.executable, "-c", "print('\033]0;mine\007'); raise SystemExit(3)")
    ran = await chaos(tmp_path, command=words)
    assert "mine" in ran.complaint
    assert "\033" not in ran.err


def test_what_a_command_prints_does_not_fill_the_disk(tmp_path: Path) -> None:
    with (tmp_path / "output").open("w+b") as file, (tmp_path / "output").open("ab") as command:
        output = CommandOutput(file, most=10_000)
        for number in range(40):
            command.write(b"%9000d" % number)
            command.flush()
            output.trim_if_large()
            assert file.seek(0, 2) <= 10_000
        assert file.seek(0, 2) == 0
        assert output.last_output() == f"{39:8192}"


async def test_a_command_that_prints_much_is_told_by_its_last_words(tmp_path: Path) -> None:
    with (tmp_path / "output").open("w+b") as file:
        output = CommandOutput(file, most=10_000)
        many = "import time\nfor n in range(40): print('x' * 9000, n, flush=True); time.sleep(0.01)"
        command = shell_chaos.TrialCommand((sys.executable, "-c", many), 20.0)
        assert await shell_chaos._run_command(command, environment(tmp_path), output) == (0, False)
        assert output.last_output().endswith("x 39\n")


def test_a_fault_struck_where_it_did_itself_and_not_where_a_scenario_fails() -> None:
    scripted = entry(1, 0, status=500, simulated={"source": "s, turn 1", "failure": "model_error"})
    other = entry(2, 900, fault(FaultEffect.CUT, rule="reset"))
    skipped = entry(3, 1800, fault(FaultEffect.CUT, rule="truncate", skipped="no body"))
    run = parse_run(document(scripted, other, skipped), "a test")
    it = FaultTrial("truncate", 0, 1.0, timed_out=False, run=run, misses=0, output="")
    assert (it.injected_count, it.outcome, it.reason) == (
        0,
        TrialOutcome.NOT_STRUCK,
        "not struck: no body",
    )
    assert replace(it, fault="reset").injected_count == 1


def test_every_fault_is_tried_where_none_is_chosen() -> None:
    assert [rule.kind.name for rule in fault_plan(())] == [
        kind.name for kind in KINDS.values() if kind.example
    ]
    given = (parse_rule("reset"),)
    assert fault_plan(given) == given
