"""README.md, the tutorial and the guides: run their console blocks and compare the output shown.

A page is read from top to bottom, in a folder of its own.  A block below a line that ends in
"`NAME`:" is written to that file; each command of a console block is run.  A server, which is
`llm-proxy` without a command, runs until the end of its page.
"""

from __future__ import annotations

import asyncio
import html
import os
import re
import secrets
import shlex
import signal
import socket
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

import judge_runner
from forked_commands import write_forked_programs
from real_programs import CLAUDE_CODE, CODEX, JUDGES
from scenario_server import scenario_document, serve_scenarios, text_turn
from thoroughness import is_thorough

ROOT: Final = Path(__file__).parents[1]
README: Final = (ROOT / "README.md").read_text("utf-8")
PICTURE: Final = (ROOT / "docs" / "images" / "terminal.svg").read_text("utf-8")
CHECKS: Final = "python3 scripts/test"
"""The command of README.md that runs this test."""
TIMEOUT_S: Final = 100.0
_WORKERS: Final = "pytest -q -n 2"
_BLOCK: Final = re.compile(
    r"^(?:[^\n]*`(?P<file>[^`]+)`:\n\n)?```(?P<language>\w+)\n(?P<content>.*?)^```",
    re.DOTALL | re.MULTILINE,
)
_SERVER: Final = re.compile(r"llm-proxy (record|replay|auto|simulate)\b(?!.* -- )")
_NODE: Final = re.compile(r"\b(node|npm) ")
_PICTURE_TEXT: Final = re.compile(
    r'<text [^>]* x="([\d.]+)"[^>]* clip-path="url\(#terminal-line-(\d+)\)">([^<]*)</text>'
)
_PICTURE_COLUMN_WIDTH: Final = 12.2
_PORT: Final = re.compile(r"\b477\d\b")
_PORTS: Final = range(15_000, 30_000)


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file that the reader saves."""

    name: str
    content: str


@dataclass(frozen=True, slots=True)
class Command:
    """A command that the reader runs, and the output shown for it."""

    text: str
    shown: list[str]


Step = NewFile | Command


def steps(page: str) -> list[Step]:
    """Return the files and commands of a page, in order."""
    listed: list[Step] = []
    for block in _BLOCK.finditer((ROOT / page).read_text("utf-8")):
        if block["language"] != "console":
            if block["file"]:
                listed.append(NewFile(block["file"], block["content"]))
            continue
        commands: list[Command] = []
        for line in block["content"].splitlines():
            if line.startswith("$ "):
                commands.append(Command(line[2:], []))
            else:
                commands[-1].shown.append(line)
        listed += commands
    return listed


def matches(shown: list[str], printed: str) -> bool:
    """Return whether `shown` matches the output; `…` matches any text or, alone, any lines.

    llm-proxy and the program share the output: lines of the log may be within one of the program,
    and count as after it.
    """
    lines = re.sub(
        r"(?<=[^\n])((?:llm-proxy: [^\n]*\n)+)([^\n]*)\n?", r"\2\n\1", printed
    ).splitlines()
    printed = "\n".join(filter(None, lines))
    shown = [*filter(None, shown)]
    pattern = re.escape("\n".join(shown)).replace("…", r"[\s\S]*?")
    return not shown or re.search(rf"^{pattern}$", printed, re.MULTILINE) is not None


class Shell:
    """The shell of a reader: a folder, an environment, and the servers that still run."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder = folder
        self.environment = dict(environment)
        self._ports: defaultdict[str, str] = defaultdict(_free_port)
        """A free port for each port of the page."""
        self._servers: list[tuple[str, asyncio.subprocess.Process]] = []

    def write(self, file: NewFile) -> None:
        """Save a file; `~` is the home folder."""
        path = self.folder / file.name.replace("~", self.environment["HOME"])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self._with_free_ports(file.content), "utf-8")

    async def run(self, command: Command) -> None:
        """Run a command, and compare what it prints with the output shown."""
        text = self._with_free_ports(command.text)
        shown = [self._with_free_ports(line) for line in command.shown]
        if text.startswith("export "):
            name, _, value = text.removeprefix("export ").partition("=")
            self.environment[name] = value
        elif _SERVER.match(text):
            await self._start_server(text, shown)
        else:
            code, printed = await self._run_to_end(text)
            assert matches(shown, printed), f"$ {text}\n{printed}"
            has_error = any(re.search("Error|ERROR", line) for line in shown)
            assert (code != 0) == has_error, f"$ {text}\n{printed}"

    async def stop_servers(self) -> None:
        """Stop the servers as Ctrl-C does."""
        for text, process in self._servers:
            process.send_signal(signal.SIGINT)
            async with asyncio.timeout(TIMEOUT_S):
                assert await process.wait() == 0, text

    async def _run_to_end(self, text: str) -> tuple[int, str]:
        process = await asyncio.create_subprocess_shell(
            text,
            cwd=ROOT if text.startswith("python3 scripts/") else self.folder,
            env=self.environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        async with asyncio.timeout(TIMEOUT_S):
            printed, _ = await process.communicate()
        return process.returncode or 0, printed.decode()

    async def _start_server(self, text: str, shown: list[str]) -> None:
        """Start a server, and wait until it has printed what is shown."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "llm_proxy", *shlex.split(text)[1:]),
            cwd=self.folder,
            env=self.environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        self._servers.append((text, process))
        assert process.stdout is not None
        printed = ""
        async with asyncio.timeout(TIMEOUT_S):
            while not matches(shown, printed):
                line = await process.stdout.readline()
                assert line, f"$ {text}\n{printed}"
                printed += line.decode()

    def _with_free_ports(self, text: str) -> str:
        return _PORT.sub(lambda port: self._ports[port[0]], text)


def _free_port() -> str:
    """A free port below those of outgoing connections: a page may bind it much later."""
    while True:
        port = _PORTS.start + secrets.randbelow(len(_PORTS))
        with socket.socket() as listener, suppress(OSError):
            listener.bind(("127.0.0.1", port))
            return str(port)


@pytest.fixture
async def shell(tmp_path: Path) -> AsyncIterator[Shell]:
    """A shell with an API key, an empty folder, and a provider that every command uses.

    On Linux, a daily run forks the programs from a process that has imported the SDK.  pytest loads
    only the plugins that a page uses.
    """
    folder, home, programs = (tmp_path / name for name in ("rivers", "home", "programs"))
    for path in (folder, home, programs):
        path.mkdir()
    removed_prefixes = ("LLM_PROXY_", "PYTEST_", "GIT_")
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(removed_prefixes)
    }
    inherited.pop("CI", None)
    if sys.platform == "linux" and not is_thorough():
        forked_programs = {
            "llm-proxy": ["-m", "llm_proxy"],
            # The SDK has imported a plugin before pytest could rewrite it.
            "pytest": ["-m", "pytest", "-W", "ignore::pytest.PytestAssertRewriteWarning"],
            "python": [],
        }
        write_forked_programs(programs, forked_programs, "openai", "pytest")
    for program in (CLAUDE_CODE, CODEX):
        launcher = JUDGES / program.name / program.launcher
        path = programs / program.name.removesuffix("-code")
        path.write_text(f'#!/bin/sh\nexec node {shlex.quote(str(launcher))} "$@"\n')
        path.chmod(0o755)
    scenario = scenario_document(
        text_turn("The Rhine, the Danube, and the Elbe.", chunks={"by": "words"}),
        match={"model": "*"},
    )
    async with serve_scenarios(tmp_path, scenario) as provider:
        path_folders = (str(programs), str(Path(sys.executable).parent), inherited["PATH"])
        running = Shell(
            folder,
            inherited
            | {
                "PATH": os.pathsep.join(path_folders),
                "HOME": str(home),
                "XDG_STATE_HOME": str(tmp_path / "state"),
                "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
                "PYTEST_PLUGINS": "xdist.plugin,llm_proxy.pytest_plugin,llm_pytest.pytest_plugin",
                "OPENAI_API_KEY": "sk-of-a-reader",
                "ANTHROPIC_API_KEY": "sk-of-a-reader",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "LLM_PROXY_UPSTREAM": f"default={provider.url}",
            },
        )
        yield running
        await running.stop_servers()


TUTORIAL: Final = "docs/tutorial.md"
LLM_TESTS: Final = "docs/how-to/llm-tests.md"
GUIDES_IN_PYTHON: Final = (
    "docs/how-to/pytest.md", "docs/how-to/ci.md", "docs/how-to/chat.md", LLM_TESTS,
)  # fmt: skip


async def follow(page: str, shell: Shell, *, with_node: bool = False) -> int:
    """Do what a page says; return the number of commands.

    The guides begin with the applications and tests of the tutorial.
    """
    if page.startswith("docs/how-to/"):
        for step in steps(TUTORIAL):
            if isinstance(step, NewFile) and "app" in step.name:
                shell.write(step)
    if with_node:
        modules = JUDGES / "openai-node" / "node_modules"
        (shell.folder / "node_modules").symlink_to(modules, target_is_directory=True)
    command_count = 0
    for step in steps(page):
        match step:
            case NewFile():
                shell.write(step)
            case Command(text) if text != CHECKS and (with_node or not _NODE.search(text)):
                if _WORKERS not in text or is_thorough():  # each imports the SDK again
                    await shell.run(step)
                command_count += 1
    return command_count


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_readme_does_what_it_says(shell: Shell) -> None:
    assert await follow("README.md", shell) >= 8


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", [TUTORIAL, *GUIDES_IN_PYTHON])
async def test_a_page_does_what_it_says(shell: Shell, page: str) -> None:
    if page == TUTORIAL:  # its provider needs no key
        del shell.environment["OPENAI_API_KEY"]
    if page == LLM_TESTS:  # it names its provider itself
        del shell.environment["LLM_PROXY_UPSTREAM"]
    assert await follow(page, shell) >= 5


needs_node = pytest.mark.skipif(
    bool(judge_runner.missing_reason("openai-node")),
    reason=judge_runner.missing_reason("openai-node"),
)


@pytest.mark.thorough
@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", [TUTORIAL, "docs/how-to/node.md"])
@needs_node
async def test_a_page_does_what_it_says_with_node(shell: Shell, page: str) -> None:
    assert await follow(page, shell, with_node=True) >= 6


@pytest.mark.thorough
@pytest.mark.timeout(900)
@pytest.mark.skipif(
    bool(CLAUDE_CODE.missing_reason or CODEX.missing_reason),
    reason=CLAUDE_CODE.missing_reason or CODEX.missing_reason,
)
async def test_the_guide_for_agents_does_what_it_says(shell: Shell, unreachable_url: str) -> None:
    shell.environment |= {"HTTP_PROXY": unreachable_url, "HTTPS_PROXY": unreachable_url}
    await shell.run(Command("git init --quiet", []))  # Codex starts only in a repository

    assert await follow("docs/how-to/agents.md", shell) >= 6


def test_the_picture_shows_commands_of_readme_with_their_output() -> None:
    shown_by_command = {
        step.text: step.shown for step in steps("README.md") if isinstance(step, Command)
    }

    printed_by_command = dict(_picture_commands())

    assert len(printed_by_command) == 3
    for command, printed in printed_by_command.items():
        assert matches(shown_by_command[command], printed), f"scripts/terminal-picture: {printed}"


def _picture_commands() -> list[tuple[str, str]]:
    """Return the commands in the picture, each with everything that it prints."""
    lines: defaultdict[int, str] = defaultdict(str)
    for left, line, text in _PICTURE_TEXT.findall(PICTURE):
        column = round(float(left) / _PICTURE_COLUMN_WIDTH)
        lines[int(line)] = lines[int(line)].ljust(column) + html.unescape(text).replace("\xa0", " ")
    screen = "\n".join(lines[number].rstrip() for number in range(max(lines) + 1))
    commands = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n?)*)", screen, re.MULTILINE)
    return [(command, printed.strip("\n")) for command, printed in commands]


def test_the_first_screen_says_what_it_is_and_where_each_user_starts() -> None:
    first_screen = "\n".join(README.splitlines()[:40])

    expected_phrases = (
        "record/replay HTTP proxy",
        "](docs/images/terminal.svg)",
        "`pytest --llm-proxy=record`",
        "`llm-proxy record -- node --test`",
        "-- claude -p",
        "-- codex exec",
        "$ python3 scripts/demo",
    )
    assert [phrase for phrase in expected_phrases if phrase not in first_screen] == []


def test_the_first_two_screens_are_for_users() -> None:
    first_screens = "\n".join(README.splitlines()[:80])

    for_contributors = (CHECKS, "CONTRIBUTING", "scripts/bench", "tests/")
    assert [phrase for phrase in for_contributors if phrase in first_screens] == []


def test_ci_runs_the_test_command_of_readme() -> None:
    assert f"$ {CHECKS}\n" in README
    assert CHECKS in (ROOT / ".ci" / "run").read_text("utf-8")


def test_a_block_with_other_output_is_detected() -> None:
    assert matches(["a … c"], "x\na b c\ny")
    assert not matches(["a … c"], "x\na b d\ny")
