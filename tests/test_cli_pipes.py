"""What happens when the reader of a pipe has enough, or Ctrl-C comes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import sample_cassettes
from cli_process import environment, started
from waiting import until

CLOSED = 128 + signal.SIGPIPE
"""What shells say of a program that wrote into a closed pipe."""


def into_a_closed_pipe(*arguments: str, folder: Path, **env: str) -> tuple[int, str]:
    """The exit code and stderr of `llm-proxy`, whose stdout nobody reads from the start."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing) as out:
        ran = subprocess.run(
            [sys.executable, "-m", "llm_proxy", *arguments],
            cwd=folder,
            env=environment(folder, **env),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.PIPE,
            check=False,
        )
    return ran.returncode, ran.stderr.decode()


@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize(
    "arguments",
    [["ls"], ["ls", "--json"], ["show", "openai"], ["show", "openai", "--body"], ["--help"]],
    ids=" ".join,
)
def test_a_reader_that_left_ends_it_without_a_word(
    tmp_path: Path, arguments: list[str], unbuffered: str
) -> None:
    sample_cassettes.complete(tmp_path)
    ended = into_a_closed_pipe(*arguments, folder=tmp_path, PYTHONUNBUFFERED=unbuffered)
    assert ended == (CLOSED, "")


FULL = Path("/dev/full")
"""Where every write fails as on a full disk."""


@pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize(
    "arguments",
    [["ls"], ["ls", "--json"], ["show", "openai"], ["show", "openai", "--body"],
     ["verify", "--json"]],
    ids=" ".join,
)  # fmt: skip
def test_a_full_disk_is_said_in_one_sentence(
    tmp_path: Path, arguments: list[str], unbuffered: str
) -> None:
    sample_cassettes.complete(tmp_path)
    with FULL.open("w") as out:
        ran = subprocess.run(
            [sys.executable, "-m", "llm_proxy", *arguments],
            cwd=tmp_path,
            env=environment(tmp_path, PYTHONUNBUFFERED=unbuffered),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (ran.returncode, ran.stderr) == (
        1,
        "llm-proxy: stdout cannot be written, so what it has is not all: No space left on device\n",
    )


def test_what_prints_nothing_on_stdout_does_not_notice(tmp_path: Path) -> None:
    sample_cassettes.complete(tmp_path)
    code, said = into_a_closed_pipe("verify", folder=tmp_path)
    assert (code, "all of them whole" in said) == (0, True)


async def test_ctrl_c_ends_a_command_that_serves_nothing_as_shells_say_130(tmp_path: Path) -> None:
    async with started("demo", "--keep", "kept", folder=tmp_path) as running:
        await until(lambda: any((tmp_path / "kept").rglob("*.jsonl")))
        running.send(signal.SIGINT)
        ran = await running.ended()
    assert ran.code == 130
    assert "Traceback" not in ran.err
