"""Commands whose stdout is closed or full, and commands that Ctrl-C interrupts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import sample_cassettes
from cli_process import environment, running_command
from waiting import wait_until

CLOSED_PIPE_EXIT_CODE = 128 + signal.SIGPIPE
"""The exit code that shells give a program killed by a write to a closed pipe."""


def run_with_closed_stdout(*arguments: str, folder: Path, **env: str) -> tuple[int, str]:
    """The exit code and stderr of `llm-proxy` with a stdout that has no reader from the start."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing) as closed_pipe:
        result = subprocess.run(
            [sys.executable, "-m", "llm_proxy", *arguments],
            cwd=folder,
            env=environment(folder, **env),
            stdin=subprocess.DEVNULL,
            stdout=closed_pipe,
            stderr=subprocess.PIPE,
            check=False,
        )
    return result.returncode, result.stderr.decode()


@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize(
    "arguments",
    [["ls"], ["ls", "--json"], ["show", "openai"], ["show", "openai", "--body"], ["--help"]],
    ids=" ".join,
)
def test_a_closed_pipe_ends_the_command_silently(
    tmp_path: Path, arguments: list[str], unbuffered: str
) -> None:
    sample_cassettes.write_complete(tmp_path)
    result = run_with_closed_stdout(*arguments, folder=tmp_path, PYTHONUNBUFFERED=unbuffered)
    assert result == (CLOSED_PIPE_EXIT_CODE, "")


FULL_DEVICE = Path("/dev/full")
"""A device on which every write fails as on a full disk."""


@pytest.mark.skipif(not FULL_DEVICE.exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize(
    "arguments",
    [["ls"], ["ls", "--json"], ["show", "openai"], ["show", "openai", "--body"],
     ["verify", "--json"]],
    ids=" ".join,
)  # fmt: skip
def test_a_full_disk_is_reported_in_one_sentence(
    tmp_path: Path, arguments: list[str], unbuffered: str
) -> None:
    sample_cassettes.write_complete(tmp_path)
    with FULL_DEVICE.open("w") as out:
        result = subprocess.run(
            [sys.executable, "-m", "llm_proxy", *arguments],
            cwd=tmp_path,
            env=environment(tmp_path, PYTHONUNBUFFERED=unbuffered),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (result.returncode, result.stderr) == (
        1,
        "llm-proxy: stdout cannot be written, so what it has is not all: No space left on device\n",
    )


def test_what_prints_nothing_on_stdout_does_not_notice(tmp_path: Path) -> None:
    sample_cassettes.write_complete(tmp_path)
    code, stderr = run_with_closed_stdout("verify", folder=tmp_path)
    assert (code, "all of them whole" in stderr) == (0, True)


async def test_ctrl_c_ends_a_command_that_serves_nothing_as_shells_say_130(tmp_path: Path) -> None:
    async with running_command("demo", "--keep", "kept", folder=tmp_path) as running:
        await wait_until(lambda: any((tmp_path / "kept").rglob("*.jsonl")))
        running.send(signal.SIGINT)
        result = await running.wait_for_end()
    assert result.exit_code == 130
    assert "Traceback" not in result.stderr
