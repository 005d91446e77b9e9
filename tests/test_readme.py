"""README.md: run every console block and compare its output with the output shown."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import orjson
import pytest

from forked_commands import write_forked_programs
from stub_upstream import chunked, upstream
from thoroughness import is_thorough

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"^```console\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
APP, TESTS = re.findall(r"^```python\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
[SCENARIO] = re.findall(r"^```yaml\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
ANSWER_PIECES = ["The Rhine,", " the Danube,", " and the Elbe."]


def event(**delta: str) -> bytes:
    finish = None if delta else "stop"
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": [choice]}
    return b"data: " + orjson.dumps(chunk) + b"\n\n"


@pytest.fixture
async def environment(tmp_path: Path) -> AsyncIterator[dict[str, str]]:
    """Environment variables of a shell with a provider, an API key and an empty folder.

    On Linux, a daily run forks the programs from a process that has imported the SDK.
    """
    pieces = [*(event(content=text) for text in ANSWER_PIECES), event(), b"data: [DONE]\n\n"]
    (tmp_path / "app.py").write_text(APP, "utf-8")
    (tmp_path / "test_rivers.py").write_text(TESTS, "utf-8")
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "rivers.yaml").write_text(SCENARIO, "utf-8")
    removed_prefixes = ("LLM_PROXY_", "PYTEST_")
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(removed_prefixes)
    }
    inherited.pop("CI", None)
    (tmp_path / "programs").mkdir()
    if sys.platform == "linux" and not is_thorough():
        programs = {
            "llm-proxy": ["-m", "llm_proxy"],
            # The SDK has imported a plugin before pytest could rewrite it.
            "pytest": ["-m", "pytest", "-W", "ignore::pytest.PytestAssertRewriteWarning"],
            "python": [],
        }
        write_forked_programs(tmp_path / "programs", programs, "openai", "pytest")
    async with upstream(chunked(pieces, gap=0.01)) as provider:
        yield inherited | {
            "PATH": os.pathsep.join(
                [str(tmp_path / "programs"), str(Path(sys.executable).parent), inherited["PATH"]]
            ),
            "OPENAI_API_KEY": "sk-of-a-reader",
            "LLM_PROXY_UPSTREAM": f"default={provider.url}",
            "XDG_STATE_HOME": str(tmp_path / "state"),
        }


async def run(command: str, folder: Path, environment: dict[str, str]) -> tuple[int, str]:
    """Run a shell command; return its exit code and everything it prints."""
    process = await asyncio.create_subprocess_shell(
        command,
        cwd=folder,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(100):
        printed, _ = await process.communicate()
    return process.returncode or 0, printed.decode()


def commands() -> list[tuple[str, list[str]]]:
    """Return each command of README.md with the output shown for it."""
    listed: list[tuple[str, list[str]]] = []
    for block in BLOCKS:
        for line in block.splitlines():
            if line.startswith("$ "):
                listed.append((line[2:], []))
            else:
                listed[-1][1].append(line)
    return listed


def matches(shown: list[str], printed: str) -> bool:
    """Return whether `shown` matches the output; `…` matches any text or, alone, any lines."""
    pattern = re.escape("\n".join(shown)).replace("…", r"[\s\S]*?")
    return re.search(rf"^{pattern}$", printed, re.MULTILINE) is not None


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_every_console_block_does_what_readme_says(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    run_count = 0
    for command, shown in commands():
        if command == "python3 scripts/test":  # this test run itself
            continue
        folder = ROOT if command.startswith("python3 scripts/") else tmp_path
        code, printed = await run(command, folder, environment)

        assert matches(shown, printed), f"$ {command}\n{printed}"
        assert (code != 0) == any("Error" in line for line in shown), f"$ {command}\n{printed}"
        run_count += 1

    assert run_count >= 9


def test_the_first_screen_says_what_it_is_how_it_is_used_and_why_to_trust_it() -> None:
    first_screen = "\n".join(README.splitlines()[:30])
    expected_phrases = (
        "record -- python app.py",
        "replay -- python app.py",
        "Exact",
        "Honest",
        "Offline",
    )
    assert [word for word in expected_phrases if word not in first_screen] == []


def test_ci_runs_the_test_command_of_readme() -> None:
    assert "python3 scripts/test" in README
    assert "python3 scripts/test" in (ROOT / ".ci" / "run").read_text("utf-8")


def test_a_block_with_other_output_is_detected() -> None:
    assert matches(["a … c"], "x\na b c\ny")
    assert not matches(["a … c"], "x\na b d\ny")
