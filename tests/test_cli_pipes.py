"""Commands whose stdout is closed or full, and commands that Ctrl-C interrupts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

import sample_cassettes
from case_tables import each_row
from cli_process import environment, running_command, start_command_on
from waiting import wait_until

CLOSED_PIPE_EXIT_CODE = 128 + signal.SIGPIPE
"""The exit code that shells give a program killed by a write to a closed pipe."""


def run_with_stdout(
    stdout: int,
    *arguments: str,
    folder: Path,
    unbuffered: str = "",
    env: Mapping[str, str] | None = None,
) -> tuple[int, str]:
    """The exit code and stderr of `llm-proxy` with this stdout, which is closed here."""
    reading, writing = os.pipe()
    wait = start_command_on(
        (reading, stdout, writing),
        *arguments,
        folder=folder,
        env={"PYTHONUNBUFFERED": unbuffered} | dict(env or {}),
    )
    os.close(stdout)
    os.close(writing)
    with os.fdopen(reading) as stderr:
        text = stderr.read()
    return wait(), text


def closed_pipe() -> int:
    """The end of a pipe whose reader is gone."""
    reading, writing = os.pipe()
    os.close(reading)
    return writing


COMMANDS = [["ls"], ["ls", "--json"], ["show", "openai"], ["show", "openai", "--body"]]


@each_row("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
@each_row("arguments", [*COMMANDS, ["--help"]])
def test_a_closed_pipe_ends_the_command_silently(
    tmp_path: Path, arguments: list[str], unbuffered: str
) -> None:
    sample_cassettes.write_complete(tmp_path)
    result = run_with_stdout(closed_pipe(), *arguments, folder=tmp_path, unbuffered=unbuffered)
    assert result == (CLOSED_PIPE_EXIT_CODE, "")


def test_python_has_nothing_to_write_to_a_closed_pipe_as_it_exits(tmp_path: Path) -> None:
    sample_cassettes.write_complete(tmp_path)
    with os.fdopen(closed_pipe()) as stdout:
        result = subprocess.run(
            [sys.executable, "-m", "llm_proxy", "ls"],
            cwd=tmp_path,
            env=environment(tmp_path),
            stdout=stdout,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert (result.returncode, result.stderr) == (CLOSED_PIPE_EXIT_CODE, b"")


FULL_DEVICE = Path("/dev/full")
"""A device on which every write fails as on a full disk."""


@pytest.mark.skipif(not FULL_DEVICE.exists(), reason="there is no /dev/full here")
@each_row("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
@each_row("arguments", [*COMMANDS, ["verify", "--json"]])
def test_a_full_disk_is_reported_in_one_sentence(
    tmp_path: Path, arguments: list[str], unbuffered: str
) -> None:
    sample_cassettes.write_complete(tmp_path)
    full_device = os.open(FULL_DEVICE, os.O_WRONLY)
    assert run_with_stdout(full_device, *arguments, folder=tmp_path, unbuffered=unbuffered) == (
        1,
        (
            "llm-proxy: error: cannot write to stdout: No space left on device; "
            "the output is incomplete\n"
        ),
    )


def test_what_prints_nothing_on_stdout_does_not_notice(tmp_path: Path) -> None:
    sample_cassettes.write_complete(tmp_path)
    code, stderr = run_with_stdout(closed_pipe(), "verify", folder=tmp_path)
    assert (code, "1 cassette checked, no problems" in stderr) == (0, True)


async def test_ctrl_c_ends_a_command_that_serves_nothing_as_shells_say_130(tmp_path: Path) -> None:
    async with running_command("demo", "--keep", "kept", folder=tmp_path) as running:
        await wait_until(lambda: any((tmp_path / "kept").rglob("*.jsonl")))
        running.send(signal.SIGINT)
        result = await running.wait_for_end()
    assert result.exit_code == 130
    assert "Traceback" not in result.stderr
