"""Real programs that people point at us, each with one small task: to write a file with a tool.

Each starts from the same state whenever it is started: a home of its own that is made anew, the
same folder, an empty work folder, a day that does not end.  What it asks then is the same, too,
but for what it rolls itself.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from cli_process import Ran, started

JUDGES: Final = Path(__file__).parent / "judges"
KEY: Final = "sk-canary-of-a-test"

_PROMPT: Final = "Make the file greeting.txt."
_WITHIN: Final = 100.0
"""Seconds that a program may take; they need one or two."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program, and how it is told to do its task at the proxy that started it."""

    name: str
    """The folder of its lock, below `judges`."""
    launcher: str
    """What Node runs, below the lock's folder."""
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    furnish: Callable[[Path], None]
    """Puts into an empty home what the program must find there."""
    asks: str
    """The request line of everything that it asks."""
    rolls: frozenset[str]
    """Where its requests differ from run to run, `*` for any place in a list."""
    late: str = ""
    """Arguments that a shell completes from the environment that the proxy gives its child."""

    @property
    def missing(self) -> str:
        """Why the program cannot run here; empty if it can."""
        if shutil.which("node") is None:
            return "there is no node"
        if not (JUDGES / self.name / self.launcher).is_file():
            return f"{self.name} is not installed: scripts/judges {self.name}"
        return ""

    @property
    def command(self) -> tuple[str, ...]:
        """What starts the program."""
        launched = ("node", str(JUDGES / self.name / self.launcher), *self.arguments)
        return ("sh", "-c", f'exec "$@" {self.late}', "sh", *launched)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a program works: the same paths at every start."""

    root: Path

    @property
    def file(self) -> Path:
        """The file that the task is about."""
        return self.root / "work" / "greeting.txt"

    def clear(self) -> None:
        """Back to the start: nothing but the cassettes stays."""
        for name in ("home", "work", "temporary"):
            shutil.rmtree(self.root / name, ignore_errors=True)
            (self.root / name).mkdir()


async def work(
    mode: str, *options: str, program: Program, place: Place, offline: str, zone: str = ""
) -> Ran:
    """`llm-proxy MODE -- PROGRAM` from the program's start to its end.

    `offline` is a URL at which nobody listens: the proxy that the program has to all the world.
    It is about noon where no time zone is given.
    """
    place.clear()
    program.furnish(place.root / "home")
    env = {
        "HOME": str(place.root / "home"),
        "TMPDIR": str(place.root / "temporary"),
        "TZ": zone or noon(),
        "HTTPS_PROXY": offline,
        "HTTP_PROXY": offline,
        **program.environment,
    }
    cassettes = ("--cassettes", str(place.root / "cassettes"))
    arguments = (mode, *cassettes, *options, "--", *program.command)
    async with started(*arguments, folder=place.file.parent, env=env) as running:
        return await running.ended(_WITHIN)


def noon() -> str:
    """A time zone in which it is about noon.

    Programs tell the model the date, which may not change between two runs.
    """
    return f"Etc/GMT{datetime.now(UTC).hour - 12:+d}"


def _furnish_claude(home: Path) -> None:
    (home / ".claude.json").write_text(f'{{"userID": "{"a" * 64}"}}')


def _furnish_codex(home: Path) -> None:
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
    furnish=_furnish_claude,
    asks="POST /v1/messages?beta=true HTTP/1.1",
    rolls=frozenset(),
)  # fmt: skip
CODEX: Final = Program(
    name="codex",
    launcher="node_modules/@openai/codex/bin/codex.js",
    arguments=(
        "exec", _PROMPT, "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox",
    ),
    environment={"OPENAI_API_KEY": KEY},
    furnish=_furnish_codex,
    asks="POST /v1/responses HTTP/1.1",
    rolls=frozenset(("$.client_metadata", "$.input[*].id", "$.prompt_cache_key")),
    late='-c "model_providers.proxied.base_url=\\"$OPENAI_BASE_URL\\""',
)  # fmt: skip
