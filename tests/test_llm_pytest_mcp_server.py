"""The MCP server serves a project's tools, and ends as its client wants."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import CallToolResult, TextContent

from cli_process import environment
from llm_pytest.evidence import ToolCallRecord
from llm_pytest.server_events import (
    ALLOWED_HOSTS_VARIABLE,
    EVENTS_FILE_VARIABLE,
    EventReader,
    ServerEvent,
)
from llm_pytest.toolset import make_toolset
from waiting import wait_until

SERVER = ("-m", "llm_pytest.mcp_server")
HASTY_SERVER = (
    "-c",
    """
from llm_pytest import server_events
server_events.CLEANUP_LIMIT_S = 0.2
from llm_pytest.mcp_server import main
main()
""",
)
"""The server with less time for its tools to clean up."""
PLUGIN = '''
"""A shop."""

import asyncio
import os
import subprocess
import time
from pathlib import Path

from llm_pytest.plugin_base import LLMPlugin

print("the plugin is loaded")


class Shop(LLMPlugin):
    """Tools of a shop."""

    async def order(self, item: str, amount: int = 1) -> dict[str, object]:
        """Order an item."""
        print("ordering")
        subprocess.run(["sh", "-c", "echo from a child; cat"])
        return {"item": item, "amount": amount}

    async def fail(self) -> None:
        """Fail."""
        raise ValueError("no such shop")

    async def note(self, text: str, wait_s: float = 0) -> None:
        """Write into a file."""
        await asyncio.sleep(wait_s)
        with Path("notes").open("a") as file:
            file.write(f"{text} ")

    async def hang(self) -> None:
        """Never end."""
        Path("hanging").touch()
        await asyncio.Event().wait()

    async def block(self) -> None:
        """Block the event loop."""
        Path("hanging").touch()
        time.sleep(1000)

    async def cleanup(self) -> None:
        Path("cleaning").touch()
        await asyncio.sleep(float(os.environ.get("CLEANUP_S", "0")))
        Path("cleaned").touch()
'''


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path, PLUGIN)


def make_project(folder: Path, plugin: str) -> Path:
    """A project with one plugin, in a new folder."""
    root = folder / "project"
    plugins = root / "tests" / "llm" / "plugins"
    plugins.mkdir(parents=True)
    (plugins / "shop.py").write_text(plugin)
    return root


def server_environment(root: Path, **extra: str) -> dict[str, str]:
    """A bare environment, with a file of events beside the project."""
    return environment(root.parent, **{EVENTS_FILE_VARIABLE: str(events_file(root)), **extra})


def events_file(root: Path) -> Path:
    return root.parent / "events.jsonl"


def reported_events(root: Path) -> list[ServerEvent]:
    reader = EventReader(events_file(root))
    try:
        return [*reader.new_events()]
    finally:
        reader.close()


def reported_calls(root: Path) -> list[ToolCallRecord]:
    return [event.call for event in reported_events(root) if event.call]


@asynccontextmanager
async def official_client(
    root: Path, env: Mapping[str, str], stderr_file: Path | None = None
) -> AsyncIterator[ClientSession]:
    """A session of the official client with a server of the project."""
    parameters = StdioServerParameters(
        command=sys.executable,
        args=[*SERVER, "--project-root", str(root)],
        env=dict(env),
        cwd=root,
    )
    with (stderr_file or root.parent / "stderr").open("w") as stderr:
        async with stdio_client(parameters, errlog=stderr) as (reader, writer):
            async with ClientSession(reader, writer) as session:
                await session.initialize()
                yield session


class RawServer:
    """A server with which a test exchanges messages itself."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self._number = 0

    async def send(self, method: str, **params: Any) -> None:
        """Send a request."""
        assert self.process.stdin
        self._number += 1
        message = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        await self.process.stdin.drain()

    async def receive(self) -> dict[str, Any]:
        """The next message."""
        assert self.process.stdout
        document: dict[str, Any] = json.loads(await self.process.stdout.readline())
        return document

    async def call(self, tool: str, **arguments: Any) -> None:
        """Send a call of a tool."""
        await self.send("tools/call", name=tool, arguments=arguments)

    async def end(self) -> int:
        """Close stdin; returns the exit code of the server."""
        assert self.process.stdin
        self.process.stdin.close()
        return await self.process.wait()


@asynccontextmanager
async def raw_server(
    root: Path, command: Sequence[str] = SERVER, **extra: str
) -> AsyncIterator[RawServer]:
    """A server that has been initialised."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, "--project-root", str(root),
        cwd=root.parent, env=server_environment(root, **extra), start_new_session=True,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        server = RawServer(process)
        client = {"name": "a test", "version": "1"}
        await server.send(
            "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=client
        )
        await server.receive()
        yield server
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


async def wait_until_unlocked(root: Path) -> None:
    """Wait until no process of a server is left."""
    reader = EventReader(events_file(root))
    await wait_until(lambda: not reader.has_writer)
    reader.close()


def text_of(result: CallToolResult) -> str:
    """The text of a result, which has no other content."""
    [content] = result.content
    assert isinstance(content, TextContent)
    return content.text


@pytest.mark.shows("003-04", "003-32")
async def test_a_client_gets_the_tools_of_all_families_as_the_toolset_defines_them(
    project: Path,
) -> None:
    async with official_client(project, server_environment(project)) as client:
        listed = (await client.list_tools()).tools

    assert [
        {"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema}
        for tool in listed
    ] == make_toolset(project).definitions()
    families = {tool.name.partition("_")[0] for tool in listed}
    assert families == {"http", "assert", "shop"}


async def test_a_result_is_one_text_of_compact_json(project: Path) -> None:
    async with official_client(project, server_environment(project)) as client:
        result = await client.call_tool("shop_order", {"item": "téa", "step": "1"})
        assertion = await client.call_tool("assert_equals", {"actual": 1, "expected": 2})

    assert (text_of(result), result.is_error) == ('{"amount":1,"item":"téa"}', False)
    assert json.loads(text_of(assertion))["passed"] is False
    assert not assertion.is_error


async def test_a_call_that_fails_is_an_error_with_its_reason(project: Path) -> None:
    cases: list[tuple[str, dict[str, Any], str]] = [
        ("shop_fail", {}, "no such shop"),
        ("shop_order", {"amount": 1}, "Object missing required field `item`"),
        ("shop_sell", {}, "unknown tool shop_sell"),
    ]
    async with official_client(project, server_environment(project)) as client:
        for tool, arguments, message in cases:
            result = await client.call_tool(tool, arguments)

            assert result.is_error
            assert message in json.loads(text_of(result))["error"]


async def test_what_plugins_print_goes_to_stderr(project: Path) -> None:
    stderr = project.parent / "stderr"
    async with official_client(project, server_environment(project), stderr) as client:
        await client.call_tool("shop_order", {"item": "tea"})

    assert {*stderr.read_text().splitlines()} == {
        "the plugin is loaded",
        "ordering",
        "from a child",
    }


async def test_without_the_environment_of_a_runner_only_this_machine_is_reached(
    project: Path,
) -> None:
    async with official_client(project, environment(project.parent)) as client:
        result = await client.call_tool("http_get", {"url": "http://shop.example/"})

    assert "not allowed" in text_of(result)
    assert not events_file(project).exists()


async def test_a_runner_allows_hosts(project: Path) -> None:
    env = server_environment(project, **{ALLOWED_HOSTS_VARIABLE: "a.invalid,b.invalid"})
    async with official_client(project, env) as client:
        result = await client.call_tool("http_get", {"url": "http://b.invalid/"})

    assert "not allowed" not in text_of(result)


async def test_a_runner_gets_every_call_as_it_ends(project: Path) -> None:
    async with official_client(project, server_environment(project)) as client:
        await client.call_tool("shop_order", {"item": "tea", "step": "setup"})
        first, *_ = calls = reported_calls(project)
        await client.call_tool("assert_equals", {"actual": 1, "expected": 1, "label": "sum"})
        both = reported_calls(project)

    assert reported_events(project)[0] == ServerEvent(is_ready=True)
    assert calls == [first]
    assert (first.tool, first.step, first.arguments) == ("shop_order", "setup", {"item": "tea"})
    assert (both[1].number, both[1].has_passed, both[1].label) == (2, True, "sum")


async def test_calls_that_arrive_together_run_in_their_order(project: Path) -> None:
    async with raw_server(project) as server:
        await server.call("shop_note", text="first", wait_s=0.2)
        await server.call("shop_note", text="second")
        await server.receive()
        await server.receive()

        assert (project / "notes").read_text() == "first second "


@pytest.mark.parametrize("end", [None, signal.SIGTERM, signal.SIGINT])
async def test_the_tools_clean_up_at_the_end(project: Path, end: signal.Signals | None) -> None:
    async with raw_server(project) as server:
        await server.call("shop_hang")
        await wait_until((project / "hanging").exists)
        if end is None:
            exit_code = await server.end()
        else:
            server.process.send_signal(end)
            exit_code = await server.process.wait()

    assert exit_code == 0
    assert (project / "cleaned").exists()
    [call] = reported_calls(project)
    assert call.is_error  # the call that was interrupted


async def test_the_tools_clean_up_though_the_client_kills_the_server(project: Path) -> None:
    async with raw_server(project, CLEANUP_S="0.3") as server:
        server.process.send_signal(signal.SIGINT)
        await wait_until((project / "cleaning").exists)
        server.process.kill()
        await server.end()
        await wait_until_unlocked(project)

        assert (project / "cleaned").exists()


async def test_a_cleanup_without_an_end_has_a_limit(project: Path) -> None:
    async with raw_server(project, HASTY_SERVER, CLEANUP_S="1000") as server:
        assert await server.end() == 0


@pytest.mark.parametrize("end", [None, signal.SIGTERM])
async def test_a_tool_that_blocks_does_not_keep_the_server(
    project: Path, end: signal.Signals | None
) -> None:
    async with raw_server(project, HASTY_SERVER) as server:
        await server.call("shop_block")
        await wait_until((project / "hanging").exists)
        if end is None:
            assert await server.end() == 1
        else:
            server.process.send_signal(end)
            assert await server.process.wait() == 1


async def failed_start(root: Path, env: Mapping[str, str], *command: str) -> tuple[int, str]:
    """The exit code and the last line of a server that cannot start."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, *(command or SERVER), "--project-root", str(root),
        env=env, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    stdout, stderr = await process.communicate()
    assert stdout == b""
    assert process.returncode is not None
    return process.returncode, stderr.decode().strip()


@pytest.mark.parametrize(
    ("plugin", "reason"),
    [
        ("import nonsense", "ModuleNotFoundError: No module named 'nonsense'"),
        ("raise SystemExit('stop')", "SystemExit: stop"),
        (f"{PLUGIN}\n\nclass Other(Shop):\n    pass\n", "two tools have the name shop_"),
    ],
)
async def test_a_plugin_that_does_not_load_ends_the_server_at_its_start(
    tmp_path: Path, plugin: str, reason: str
) -> None:
    root = make_project(tmp_path, plugin)

    exit_code, message = await failed_start(root, environment(tmp_path))

    assert exit_code == 2
    [error] = [line for line in message.splitlines() if line.startswith("llm_pytest: error: ")]
    assert str(root / "tests" / "llm" / "plugins") in error
    assert reason in error


async def test_a_runner_learns_why_a_server_cannot_start_before_its_client_does(
    tmp_path: Path,
) -> None:
    root = make_project(tmp_path, "import nonsense")
    process = await asyncio.create_subprocess_exec(
        sys.executable, *SERVER, "--project-root", str(root),
        env=server_environment(root), stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    await wait_until(lambda: bool(reported_events(root)))

    [event] = reported_events(root)
    assert "No module named 'nonsense'" in event.failure
    assert process.returncode is None
    await process.communicate()  # closes stdin
    assert process.returncode == 2


async def test_a_project_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    root = tmp_path / "nowhere"

    assert await failed_start(root, environment(tmp_path)) == (
        2,
        f"llm_pytest: error: no such folder: {root}; set --project-root",
    )


async def test_without_the_mcp_sdk_the_server_says_how_to_install_it(project: Path) -> None:
    advice = "run pip install 'llm-proxy-replay[llm-tests]'"
    start = "import sys; sys.modules['mcp'] = None; from llm_pytest.mcp_server import main; main()"

    assert await failed_start(project, environment(project.parent), "-c", start) == (
        2,
        f"llm_pytest: error: LLM tests require mcp; {advice}",
    )


async def test_a_module_of_the_project_does_not_replace_a_library(project: Path) -> None:
    (project / "mcp.py").write_text("raise RuntimeError")

    async with official_client(project, environment(project.parent)) as client:
        assert (await client.list_tools()).tools
