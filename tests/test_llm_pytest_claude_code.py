"""The provider `claude-code`, with a program that takes the place of the Claude Code CLI."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from llm_proxy.providers import DUMMY_API_KEY
from llm_pytest.errors import ProviderFailed, UnreadableVerdict
from llm_pytest.evidence import ToolCallRecord
from llm_pytest.models import RunUsage, StepResult, TestSpec, TestStep, Verdict
from llm_pytest.providers import claude_code
from llm_pytest.providers.base import ProviderContext
from llm_pytest.providers.claude_code import ClaudeCodeProvider
from llm_pytest.server_events import ServerEvent
from llm_pytest.toolset import ToolSet
from waiting import wait_until

FAKE = """
import json, os, signal, subprocess, sys, time
from pathlib import Path

arguments = sys.argv[1:]
configuration = json.loads(Path(arguments[arguments.index("--mcp-config") + 1]).read_text())
plan = json.loads(Path(os.environ["FAKE_PLAN"]).read_text())
log = Path(os.environ["FAKE_LOG"])
child = subprocess.Popen(["sleep", "1000"]) if plan["hangs"] else None
log.with_suffix(".part").write_text(json.dumps({
    "arguments": arguments, "configuration": configuration, "environ": dict(os.environ),
    "folder": os.getcwd(), "files": os.listdir(), "stdin": os.read(0, 1).decode(),
    "group": os.getpgid(0), "child": child and child.pid,
}))
log.with_suffix(".part").rename(log)
events = configuration["mcpServers"]["llm_pytest"]["env"]["LLM_PYTEST_EVENTS_FILE"]
with open(events, "a") as file:
    file.write(plan["events"])
for line in plan["output"]:
    print(line, flush=True)
    while plan["waits_for"] and not Path(plan["waits_for"]).exists():
        time.sleep(0.01)
if plan["hangs"]:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Path(os.environ["FAKE_LOG"]).with_name("hanging").touch()
    time.sleep(1000)
print(plan["error"], file=sys.stderr)
sys.exit(plan["exit_code"])
"""
VERDICT = '{"verdict": "PASS", "reason": "ok", "steps": [{"name": "Buy", "status": "pass"}]}'
RESULT = {
    "type": "result",
    "subtype": "success",
    "is_error": False,
    "num_turns": 2,
    "result": VERDICT,
    "total_cost_usd": 0.01,
    "usage": {
        "input_tokens": 20,
        "cache_creation_input_tokens": 3,
        "cache_read_input_tokens": 4,
        "output_tokens": 10,
    },
}
INSTALLATION = "install Claude Code with npm install -g @anthropic-ai/claude-code"
PASS = Verdict("PASS", "ok", (StepResult("Buy", "pass"),))
CALL = ToolCallRecord(1, "http_get", {"url": "http://127.0.0.1/"}, {"status": 200}, step="1")
READY = ServerEvent(is_ready=True)


class FakeClaude:
    """A program in the place of Claude Code, and what it was started with."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.project = folder / "project"
        self.project.mkdir()
        (folder / "fake.py").write_text(FAKE)
        self.environ = {
            "PATH": os.environ["PATH"],
            "LLM_PYTEST_CLAUDE": shlex.join([sys.executable, "-S", str(folder / "fake.py")]),
            "FAKE_PLAN": str(folder / "plan.json"),
            "FAKE_LOG": str(folder / "log.json"),
        }
        self.toolset = ToolSet([])
        self.shown: list[str] = []
        self.plan()

    def plan(
        self,
        *output: dict[str, Any] | list[dict[str, Any]] | str,
        events: tuple[ServerEvent, ...] = (READY,),
        error: str = "",
        exit_code: int = 0,
        hangs: bool = False,
        waits_for: Path | None = None,
    ) -> None:
        """Set what the program does; by default it prints a result with a verdict."""
        lines = [each if isinstance(each, str) else json.dumps(each) for each in output]
        document = {
            "output": lines or [json.dumps(RESULT)],
            "events": "".join(f"{msgspec.json.encode(event).decode()}\n" for event in events),
            "error": error,
            "exit_code": exit_code,
            "hangs": hangs,
            "waits_for": str(waits_for) if waits_for else "",
        }
        (self.folder / "plan.json").write_text(json.dumps(document))

    def provider(
        self, *, prompt: str = "Test the shop.", model: str = "", is_replay: bool = False,
        show: Callable[[str], None] | None = None,
    ) -> ClaudeCodeProvider:  # fmt: skip
        """A new provider that starts the program."""
        return ClaudeCodeProvider(
            ProviderContext(
                prompt=prompt,
                toolset=self.toolset,
                project_root=self.project,
                environ=self.environ,
                model=model,
                allowed_hosts=("shop.example", "pay.example:8443"),
                is_replay=is_replay,
                show=show or self.shown.append,
            )
        )

    @property
    def log(self) -> Any:
        """What the program was started with."""
        return json.loads((self.folder / "log.json").read_text())

    def is_running(self) -> bool:
        """Whether a process of the program's group is left."""
        command = ["ps", "-A", "-o", "pgid=,stat="]
        table = subprocess.run(command, capture_output=True, check=True)
        processes = (line.split() for line in table.stdout.decode().splitlines())
        group = str(self.log["group"])
        return any(pgid == group and state[0] != "Z" for pgid, state, *_ in processes)


@pytest.fixture
def fake(tmp_path: Path) -> FakeClaude:
    return FakeClaude(tmp_path)


async def run(
    provider: ClaudeCodeProvider,
    *,
    verbose: bool = False,
    timeout_s: float = 20,
    max_turns: int = 7,
) -> Verdict:
    spec = TestSpec(name="Buy", steps=(TestStep("Buy", "Buy tea."),), max_turns=max_turns)
    return await provider.execute_test(spec, [], timeout_s, verbose)


@pytest.mark.shows("003-07", "003-08", "003-09")
@pytest.mark.parametrize(
    ("verbose", "output_format"),
    [
        (False, ["--output-format", "json"]),
        (True, ["--output-format", "stream-json", "--verbose"]),
    ],
)
async def test_the_cli_gets_the_prompt_the_tools_and_nothing_else(
    fake: FakeClaude, verbose: bool, output_format: list[str]
) -> None:
    await run(fake.provider(), verbose=verbose)

    arguments = fake.log["arguments"]
    configuration_file = arguments[3]
    assert arguments == [
        "-p", "Test the shop.",
        "--mcp-config", configuration_file,
        "--allowedTools", "mcp__llm_pytest__*",
        *output_format,
        "--model", "sonnet",
        "--max-turns", "7",
        "--tools", "",
        "--strict-mcp-config",
        "--setting-sources", "",
        "--system-prompt", arguments[-2],
        "--no-session-persistence",
    ]  # fmt: skip
    assert not Path(configuration_file).parent.exists()


@pytest.mark.shows("003-05", "003-29")
async def test_the_mcp_configuration_starts_the_server_of_the_project(fake: FakeClaude) -> None:
    await run(fake.provider())

    [(name, server)] = fake.log["configuration"]["mcpServers"].items()
    assert name == "llm_pytest"
    assert server["command"] == sys.executable
    assert server["args"] == ["-m", "llm_pytest.mcp_server", "--project-root", str(fake.project)]
    assert server["cwd"] == str(fake.project)
    assert server["env"]["LLM_PYTEST_ALLOWED_HOSTS"] == "shop.example,pay.example:8443"
    assert server["env"]["PYTHONPATH"].split(os.pathsep) == [
        str(Path.cwd() / folder) for folder in sys.path
    ]


@pytest.mark.shows("003-10", "003-11")
@pytest.mark.parametrize("verbose", [False, True])
async def test_stdin_is_closed(fake: FakeClaude, verbose: bool) -> None:
    await run(fake.provider(), verbose=verbose)

    assert fake.log["stdin"] == ""
    code = Path(claude_code.__file__).read_text()
    assert "hangs indefinitely if stdin is not closed" in code


async def test_the_cli_runs_in_an_empty_folder_of_its_own(fake: FakeClaude) -> None:
    await run(fake.provider())

    assert fake.log["files"] == []
    assert not Path(fake.log["folder"]).exists()


async def test_a_model_can_be_set(fake: FakeClaude) -> None:
    await run(fake.provider(model="claude-opus-5"))

    arguments = fake.log["arguments"]
    assert arguments[arguments.index("--model") + 1] == "claude-opus-5"


@pytest.mark.shows("003-12", "003-22")
@pytest.mark.parametrize(
    "output",
    [
        [RESULT],
        [[{"type": "system"}, RESULT]],  # where the user's settings say so
        ["a warning", {"type": "new", "message": [1]}, "[1, 2]", RESULT],
    ],
)
@pytest.mark.parametrize("verbose", [False, True])
async def test_the_result_of_the_cli_is_the_verdict(
    fake: FakeClaude, output: list[Any], verbose: bool
) -> None:
    fake.plan(*output)
    provider = fake.provider()

    assert await run(provider, verbose=verbose) == PASS
    assert provider.usage == RunUsage(turns=2, input_tokens=27, output_tokens=10, cost_usd=0.01)


async def test_calls_that_the_mcp_server_reports_are_the_evidence(fake: FakeClaude) -> None:
    fake.plan(events=(READY, ServerEvent(call=CALL)))

    await run(fake.provider())

    assert fake.toolset.calls == [CALL]


@pytest.mark.shows("003-09", "003-24")
async def test_in_verbose_mode_events_are_shown_as_they_arrive(fake: FakeClaude) -> None:
    seen = fake.folder / "seen"
    long_text = "x" * 100_000
    blocks = [
        {"type": "text", "text": "I buy tea."},
        {"type": "tool_use", "name": "mcp__llm_pytest__http_get", "input": {"url": "http://é"}},
        {"type": "thinking", "thinking": "hidden"},
    ]
    result_block = {"type": "tool_result", "content": [{"type": "text", "text": long_text}]}
    error_block = {"type": "tool_result", "content": "no such tool", "is_error": True}
    fake.plan(
        {"type": "assistant", "message": {"content": blocks}},
        {"type": "user", "message": {"content": [result_block, error_block]}},
        RESULT,
        waits_for=seen,
    )

    def show(line: str) -> None:
        fake.shown.append(line)
        seen.touch()  # the program goes on only when its first event has been shown

    assert await run(fake.provider(show=show), verbose=True) == PASS
    assert fake.shown == [
        "I buy tea.",
        'http_get {"url": "http://é"}',
        f"  → {'x' * 199}…",
        "  → no such tool",
    ]


async def test_in_quiet_mode_nothing_is_shown(fake: FakeClaude) -> None:
    await run(fake.provider())

    assert fake.shown == []


def error_result(**fields: Any) -> dict[str, Any]:
    return {**RESULT, "is_error": True, **fields}


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (
            {"output": [error_result(result="API Error: 424 no cassette")], "exit_code": 1},
            "claude-code: API Error: 424 no cassette",
        ),
        (
            {"output": [error_result(result="Not logged in · Please run /login")]},
            "claude-code: Not logged in · Please run /login",
        ),
        (
            {
                "output": [error_result(result=None, subtype="error_x", errors=["out of money"])],
                "exit_code": 1,
            },
            "claude-code: out of money",
        ),
        (
            {"output": [""], "error": "a trace\nerror: unknown option '--x'", "exit_code": 1},
            "claude-code: no result, exit code 1: error: unknown option '--x'",
        ),
        (
            {"output": ["Welcome!", "And more."]},
            "claude-code: no result, exit code 0: Welcome!",
        ),
        ({"output": [""]}, "claude-code: no result, exit code 0: it printed nothing"),
        ({"output": ["{" * 20_000]}, f"claude-code: no result, exit code 0: {'{' * 199}…"),
        (
            {"events": ()},
            "claude-code: its MCP server did not start, so the model had no tools",
        ),
        (
            {"events": (ServerEvent(failure="x.py: cannot load the plugin"),), "hangs": True},
            "the MCP server cannot start: x.py: cannot load the plugin",
        ),
        (
            {"events": (ServerEvent(failure="x.py: cannot load the plugin"),)},
            "the MCP server cannot start: x.py: cannot load the plugin",
        ),
    ],
)
async def test_a_run_that_fails_is_reported_in_the_words_of_the_cli(
    fake: FakeClaude, monkeypatch: pytest.MonkeyPatch, plan: dict[str, Any], message: str
) -> None:
    monkeypatch.setattr(claude_code, "_CLEANUP_LIMIT_S", 0.1)
    options = {name: value for name, value in plan.items() if name != "output"}
    fake.plan(*plan.get("output", []), **options)

    with pytest.raises(ProviderFailed) as failure:
        await run(fake.provider())

    assert str(failure.value) == message


async def test_a_run_whose_server_failed_ends_before_the_model_answers(fake: FakeClaude) -> None:
    server = {"name": "llm_pytest", "status": "failed"}
    init = {"type": "system", "subtype": "init", "mcp_servers": [server]}
    fake.plan(init, events=(), waits_for=fake.folder / "never")

    with pytest.raises(ProviderFailed, match="its MCP server did not start"):
        await run(fake.provider(), verbose=True)

    assert not fake.is_running()


async def test_a_model_that_never_ends_has_no_verdict(fake: FakeClaude) -> None:
    fake.plan(error_result(subtype="error_max_turns", result=None), exit_code=1)
    provider = fake.provider()

    with pytest.raises(UnreadableVerdict, match="no verdict within 7 responses"):
        await run(provider)

    assert provider.usage.output_tokens == 10


async def test_a_response_without_a_verdict_is_unreadable(fake: FakeClaude) -> None:
    fake.plan({**RESULT, "result": "All is well."})

    with pytest.raises(UnreadableVerdict):
        await run(fake.provider())


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (
            "",
            f"no such command: claude; {INSTALLATION}",
        ),
        (
            "./nowhere/claude -x",
            f"LLM_PYTEST_CLAUDE: no such command: ./nowhere/claude; {INSTALLATION}",
        ),
        ("'claude", "LLM_PYTEST_CLAUDE: No closing quotation: 'claude"),
    ],
)
async def test_without_the_cli_the_failure_says_how_to_install_it(
    fake: FakeClaude, command: str, message: str
) -> None:
    fake.environ |= {"PATH": str(fake.project), "LLM_PYTEST_CLAUDE": command}

    with pytest.raises(ProviderFailed) as failure:
        await run(fake.provider())

    assert str(failure.value) == message


async def test_claude_is_found_on_the_path(fake: FakeClaude) -> None:
    program = fake.folder / "claude"
    program.write_text(f"#!{sys.executable} -S\n{FAKE}")
    program.chmod(0o755)
    del fake.environ["LLM_PYTEST_CLAUDE"]
    fake.environ["PATH"] = str(fake.folder)

    assert await run(fake.provider()) == PASS


async def test_paths_in_the_command_belong_to_the_project(fake: FakeClaude) -> None:
    (fake.project / "fake.py").write_text(FAKE)
    fake.environ["LLM_PYTEST_CLAUDE"] = f"{sys.executable} -S fake.py"

    assert await run(fake.provider()) == PASS


async def test_a_prompt_that_is_too_long_for_a_command_is_a_failure(fake: FakeClaude) -> None:
    with pytest.raises(ProviderFailed, match="Argument list too long"):
        await run(fake.provider(prompt="x" * 10_000_000))


@pytest.mark.shows("003-14", "003-23")
@pytest.mark.parametrize("verbose", [False, True])
async def test_at_the_timeout_all_processes_end(
    fake: FakeClaude, monkeypatch: pytest.MonkeyPatch, verbose: bool
) -> None:
    monkeypatch.setattr(claude_code, "_CLEANUP_LIMIT_S", 0.1)
    fake.plan({"type": "new"}, events=(READY, ServerEvent(call=CALL)), hangs=True)

    with pytest.raises(TimeoutError):
        await run(fake.provider(), verbose=verbose, timeout_s=0.7)

    assert fake.log["child"]
    assert not fake.is_running()
    assert fake.toolset.calls == [CALL]
    assert not Path(fake.log["folder"]).exists()


async def test_when_it_is_interrupted_all_processes_end(
    fake: FakeClaude, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claude_code, "_CLEANUP_LIMIT_S", 0.1)
    fake.plan({"type": "new"}, hangs=True)
    task = asyncio.create_task(run(fake.provider()))
    await wait_until((fake.folder / "hanging").exists)

    task.cancel()  # as asyncio.run() does at Ctrl-C

    with pytest.raises(asyncio.CancelledError):
        await task
    assert not fake.is_running()


USER = {
    "HOME": "/home/user",
    "CLAUDECODE": "1",
    "CLAUDE_CODE_ENTRYPOINT": "cli",
    "ANTHROPIC_BASE_URL": "http://127.0.0.1:1",
    "SHOP_URL": "http://127.0.0.1:2",
}


@pytest.mark.parametrize(
    ("user", "is_replay", "key", "has_own_config"),
    [
        ({}, False, None, False),
        ({"ANTHROPIC_API_KEY": ""}, False, None, False),
        ({"ANTHROPIC_API_KEY": "sk-user"}, False, "sk-user", True),
        ({}, True, DUMMY_API_KEY, True),
        ({"ANTHROPIC_API_KEY": "sk-user"}, True, DUMMY_API_KEY, True),
        ({"CLAUDE_CODE_OAUTH_TOKEN": "secret"}, True, DUMMY_API_KEY, True),
        ({"ANTHROPIC_AUTH_TOKEN": "secret", "CLAUDE_CONFIG_DIR": "/x"}, True, DUMMY_API_KEY, True),
    ],
)
async def test_the_account_of_the_user_is_used_only_where_it_is_needed(
    fake: FakeClaude, user: dict[str, str], is_replay: bool, key: str | None, has_own_config: bool
) -> None:
    fake.environ |= USER | user

    await run(fake.provider(is_replay=is_replay))

    environ = fake.log["environ"]
    assert environ.get("ANTHROPIC_API_KEY") == key
    assert ("CLAUDE_CONFIG_DIR" in environ) == has_own_config
    assert environ.get("CLAUDE_CONFIG_DIR") != "/x"
    assert "secret" not in environ.values()


async def test_the_environment_of_the_run_reaches_the_cli(fake: FakeClaude) -> None:
    fake.environ |= USER

    await run(fake.provider(), timeout_s=20)

    environ = fake.log["environ"]
    kept = {name: value for name, value in USER.items() if not name.startswith("CLAUDE")}
    assert kept.items() <= environ.items()
    assert not environ.keys() & {"CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT"}
    assert environ["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"] == "1"
    assert environ["MCP_TIMEOUT"] == "21000"


async def test_tools_can_be_called_directly(fake: FakeClaude) -> None:
    result = await fake.provider().call_tool("shop_buy", {})

    assert result == {"error": "unknown tool shop_buy; the tools are: "}
