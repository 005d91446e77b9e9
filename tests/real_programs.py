"""Runs real programs behind the proxy, each with one small task: to write a file with a tool.

Each run starts from the same state: a new home folder, the same paths, an empty work folder, and
a time zone in which the date does not change.  So the program sends the same requests in every
run, apart from values that it generates at random.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from cli_process import CommandResult, running_command

JUDGES: Final = Path(__file__).parent / "judges"
KEY: Final = "sk-canary-of-a-test"

_PROMPT: Final = "Make the file greeting.txt."
_TIMEOUT_S: Final = 100.0
"""Time limit in seconds of one run; a program needs one or two."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program, and how it is started to do its task through the proxy."""

    name: str
    """The folder of its lock file, below `judges`."""
    launcher: str
    """The script that Node runs, relative to that folder."""
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    prepare_home: Callable[[Path], None]
    """Writes the files that the program needs into an empty home folder."""
    request_line: str
    """The request line of all its requests."""
    varying_paths: frozenset[str]
    """JSON paths at which its requests differ between runs; `*` is any index of a list."""
    shell_arguments: str = ""
    """Arguments that a shell expands from the environment that the proxy gives its child."""

    @property
    def missing_reason(self) -> str:
        """Why the program cannot run here; empty if it can run."""
        if shutil.which("node") is None:
            return "there is no node"
        if not (JUDGES / self.name / self.launcher).is_file():
            return f"{self.name} is not installed: scripts/judges {self.name}"
        return ""

    @property
    def command(self) -> tuple[str, ...]:
        """The command line that starts the program."""
        launch_command = ("node", str(JUDGES / self.name / self.launcher), *self.arguments)
        return ("sh", "-c", f'exec "$@" {self.shell_arguments}', "sh", *launch_command)


@dataclass(frozen=True, slots=True)
class Workspace:
    """The folders in which a program runs: the same paths in every run."""

    root: Path

    @property
    def task_file(self) -> Path:
        """The file that the task creates."""
        return self.root / "work" / "greeting.txt"

    def reset(self) -> None:
        """Restore the initial state; only the cassettes are kept."""
        for name in ("home", "work", "temporary"):
            shutil.rmtree(self.root / name, ignore_errors=True)
            (self.root / name).mkdir()


async def run_program(
    mode: str,
    *options: str,
    program: Program,
    workspace: Workspace,
    offline: str,
    timezone: str = "",
) -> CommandResult:
    """Run `llm-proxy MODE -- PROGRAM` until the program exits.

    `offline` is a URL at which nothing listens: the program's HTTP proxy for all other hosts.
    Without `timezone`, the program's local time is about noon.
    """
    workspace.reset()
    program.prepare_home(workspace.root / "home")
    env = {
        "HOME": str(workspace.root / "home"),
        "TMPDIR": str(workspace.root / "temporary"),
        "TZ": timezone or noon_timezone(),
        "HTTPS_PROXY": offline,
        "HTTP_PROXY": offline,
        **program.environment,
    }
    cassettes = ("--cassettes", str(workspace.root / "cassettes"))
    arguments = (mode, *cassettes, *options, "--", *program.command)
    async with running_command(*arguments, folder=workspace.task_file.parent, env=env) as running:
        return await running.wait_for_end(_TIMEOUT_S)


def noon_timezone() -> str:
    """Return a time zone in which it is about noon.

    Programs send the date to the model, and it must not change between two runs.
    """
    return f"Etc/GMT{datetime.now(UTC).hour - 12:+d}"


def _prepare_claude_home(home: Path) -> None:
    (home / ".claude.json").write_text(f'{{"userID": "{"a" * 64}"}}')


def _prepare_codex_home(home: Path) -> None:
    (home / ".codex").mkdir()
    (home / ".codex" / "config.toml").write_text(_CODEX_CONFIG)


_CODEX_CONFIG: Final = """
model = "gpt-5.5"
model_provider = "proxied"
check_for_update_on_startup = false
[analytics]
enabled = false
[features]
plugins = false
[model_providers.proxied]
name = "proxied"
wire_api = "responses"
env_key = "OPENAI_API_KEY"
stream_max_retries = 0
"""

CLAUDE_CODE: Final = Program(
    name="claude-code",
    launcher="node_modules/@anthropic-ai/claude-code/cli-wrapper.cjs",
    arguments=(
        "-p", _PROMPT, "--allowedTools", "Write", "--model", "claude-sonnet-5",
        "--session-id", "11111111-2222-4333-8444-555555555555",
    ),
    environment={"ANTHROPIC_API_KEY": KEY, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"},
    prepare_home=_prepare_claude_home,
    request_line="POST /v1/messages?beta=true HTTP/1.1",
    varying_paths=frozenset(),
)  # fmt: skip
CODEX: Final = Program(
    name="codex",
    launcher="node_modules/@openai/codex/bin/codex.js",
    arguments=(
        "exec", _PROMPT, "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox",
    ),
    environment={"OPENAI_API_KEY": KEY},
    prepare_home=_prepare_codex_home,
    request_line="POST /v1/responses HTTP/1.1",
    varying_paths=frozenset(("$.client_metadata", "$.input[*].id", "$.prompt_cache_key")),
    shell_arguments='-c "model_providers.proxied.base_url=\\"$OPENAI_BASE_URL\\""',
)  # fmt: skip
