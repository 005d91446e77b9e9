"""The provider `claude-code`: the Claude Code CLI carries a test out, with the tools over MCP.

Source: owner's document 003, "Claude Code Provider" and "Critical: stdin Quirk"; the flags and the
output are those of Claude Code 2.1.330.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from llm_proxy.providers import DUMMY_API_KEY
from llm_proxy.turns import Json
from llm_pytest.errors import ProviderFailed
from llm_pytest.models import RunUsage, TestSpec, Verdict
from llm_pytest.providers.base import LLMProvider, ProviderContext
from llm_pytest.server_events import (
    ALLOWED_HOSTS_VARIABLE,
    CLEANUP_LIMIT_S,
    EVENTS_FILE_VARIABLE,
    INSERTED_VARIABLE,
    SERVER_NAME,
    EventReader,
)
from llm_pytest.verdicts import parse_verdict, shortened, too_many_turns

COMMAND_VARIABLE: Final = "LLM_PYTEST_CLAUDE"
"""The command that starts Claude Code, if it is not `claude`."""
DEFAULT_MODEL: Final = "sonnet"
"""The CLI's own default depends on the account, so that a recording would match nowhere else."""
_SYSTEM_PROMPT: Final = "You carry out tests with the tools that you have."
_TOOL_PREFIX: Final = f"mcp__{SERVER_NAME}__"
_POLL_S: Final = 0.02
_CLEANUP_LIMIT_S: Final = CLEANUP_LIMIT_S + 1
_KILL_LIMIT_S: Final = 1.0
_READ_SIZE: Final = 1 << 16
_NO_TOOLS: Final = "its MCP server did not start, so the model had no tools"
_MAX_MCP_LIMIT_S: Final = 86_400.0
"""The CLI takes a limit of more than 24 days for none at all."""

_SETTINGS: Final[Mapping[str, str]] = {
    # Requests besides those of the test are neither recorded nor replayed.
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    # Experiments of the vendor, which change requests, differ between accounts and days.
    "DISABLE_GROWTHBOOK": "1",
    # A prompt that contains `@/path` is a text, and no request to read a file.
    "CLAUDE_CODE_DISABLE_ATTACHMENTS": "1",
    # A login asks for an hour, a key for 5 minutes.
    "FORCE_PROMPT_CACHING_5M": "1",
}
_CREDENTIALS: Final = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")
_CACHE_VARIABLE: Final = "XDG_CACHE_HOME"
_OTHER_CLOUDS: Final = "CLAUDE_CODE_USE_"
"""The beginning of the variables that send requests to a cloud, past `ANTHROPIC_BASE_URL`."""
_OUTER_SESSION: Final = frozenset(
    ("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_SSE_PORT")
)
"""What a Claude Code session sets for the programs that it runs; a test is no part of it."""


class ClaudeCodeProvider(LLMProvider):
    """Runs Claude Code for each test."""

    name = "claude-code"

    def __init__(self, context: ProviderContext) -> None:
        super().__init__(context)
        self._has_tools = False
        self._start_failure = ""
        """Why the MCP server cannot start."""

    async def execute_test(
        self,
        spec: TestSpec,
        tools: Sequence[Mapping[str, Any]],  # the MCP server has them, too
        timeout: float,  # noqa: ASYNC109 # the owner's document gives the signature
        verbose: bool = False,  # as above
    ) -> Verdict:
        """Carry out a test.  Its tools have cleaned up, and no process is left, when it ends."""
        program = self._program()
        with TemporaryDirectory(prefix="llm-pytest-", ignore_cleanup_errors=True) as name:
            folder = Path(name)
            events = EventReader(folder / "events.jsonl")
            command = [*program, *self._arguments(spec, folder, verbose=verbose)]
            try:
                async with asyncio.timeout(timeout):
                    result = await self._run(command, folder, events, timeout, verbose=verbose)
            finally:
                self._take_events(events)
                events.close()
                await self._context.toolset.aclose()  # plugins were made in this process, too
        return self._verdict(spec, result)

    async def call_tool(self, name: str, arguments: dict[str, Json]) -> Json:
        """Call a tool in this process; those of the model's calls are in the MCP server."""
        return (await self._context.toolset.call(name, arguments)).result

    def _program(self) -> list[str]:
        """The command of Claude Code, with absolute paths."""
        environ, root = self._context.environ, self._context.project_root
        given = environ.get(COMMAND_VARIABLE, "")
        try:
            program, *arguments = shlex.split(given) or ["claude"]
        except ValueError as error:
            raise ProviderFailed(f"{COMMAND_VARIABLE}: {error}: {given}") from None
        path = root / program if "/" in program else shutil.which(program, path=environ.get("PATH"))
        if path is None or not os.access(path, os.X_OK):
            place = f"{COMMAND_VARIABLE}: " if given else ""
            raise ProviderFailed(
                f"{place}no such command: {program}; install Claude Code with "
                "npm install -g @anthropic-ai/claude-code"
            )
        files = [root / argument for argument in arguments]
        return [
            str(path),
            *(
                str(file) if file.is_file() else argument
                for file, argument in zip(files, arguments, strict=True)
            ),
        ]

    def _arguments(self, spec: TestSpec, folder: Path, *, verbose: bool) -> Iterator[str]:
        """The arguments of Claude Code."""
        configuration = folder / "mcp.json"
        configuration.write_text(json.dumps(self._mcp_configuration(folder)))
        yield from ("-p", self._context.prompt)
        yield from ("--mcp-config", str(configuration))
        yield from ("--allowedTools", f"{_TOOL_PREFIX}*")
        yield from (
            ("--output-format", "stream-json", "--verbose")
            if verbose
            else ("--output-format", "json")
        )
        yield from ("--model", self._context.model or DEFAULT_MODEL)
        yield from ("--max-turns", str(spec.max_turns))
        # A test has its own tools only: none that reads files or runs commands, none of the user's
        # MCP servers.
        yield from ("--tools", "", "--strict-mcp-config")
        # Neither settings nor hooks of the user or the project change what is sent.
        yield from ("--setting-sources", "")
        # The own prompt is about software development, and describes this machine.
        yield from ("--system-prompt", _SYSTEM_PROMPT)
        # Tests do not fill the user's list of conversations.
        yield "--no-session-persistence"

    def _mcp_configuration(self, folder: Path) -> dict[str, Any]:
        root, environ = str(self._context.project_root), self._context.environ
        return {
            "mcpServers": {
                SERVER_NAME: {
                    "command": sys.executable,
                    "args": ["-m", "llm_pytest.mcp_server", "--project-root", root],
                    "cwd": root,
                    "env": {
                        # pytest adds folders, such as those of its setting `pythonpath`.
                        "PYTHONPATH": os.pathsep.join(
                            str(Path.cwd() / folder) for folder in sys.path
                        ),
                        ALLOWED_HOSTS_VARIABLE: ",".join(self._context.allowed_hosts),
                        INSERTED_VARIABLE: ",".join(self._context.secret_names),
                        EVENTS_FILE_VARIABLE: str(folder / "events.jsonl"),
                        # The tools have that of the user.
                        _CACHE_VARIABLE: environ.get(
                            _CACHE_VARIABLE, f"{environ.get('HOME', '')}/.cache"
                        ),
                    },
                    "alwaysLoad": True,  # in the first request, not found by a search of tools
                }
            }
        }

    def _environment(self, folder: Path, timeout_s: float) -> dict[str, str]:
        environ = {
            name: value
            for name, value in self._context.environ.items()
            if name not in _OUTER_SESSION
            and not (self._context.is_replay and name.startswith(_OTHER_CLOUDS))
        }
        clouds = [name for name in environ if name.startswith(_OTHER_CLOUDS)]
        if clouds and "LLM_PROXY_URL" in environ:
            raise ProviderFailed(
                f"{self.name}: {clouds[0]} sends requests past llm-proxy, so they cannot be "
                "recorded; unset it, or add --llm-proxy=off"
            )
        for name in _CREDENTIALS:
            # CI sets a missing secret to nothing, which is no login.  In `auto`, a dummy key would
            # replace the user's login.
            if self._context.is_replay or environ.get(name) in (None, "", DUMMY_API_KEY):
                environ.pop(name, None)
        if self._context.is_replay:
            environ["ANTHROPIC_API_KEY"] = DUMMY_API_KEY
        if any(name in environ for name in _CREDENTIALS):
            # Only a login needs the user's folder; other contents of it may change requests.
            environ["CLAUDE_CONFIG_DIR"] = str(folder / "config")
        environ[_CACHE_VARIABLE] = str(folder / "cache")  # or each test would leave a log there
        # After its own limit of 30 s, the CLI would go on without tools.
        limit_s = min(timeout_s + 1, _MAX_MCP_LIMIT_S)
        return {**environ, **_SETTINGS, "MCP_TIMEOUT": f"{limit_s * 1000:.0f}"}

    async def _run(
        self,
        command: Sequence[str],
        folder: Path,
        events: EventReader,
        timeout_s: float,
        *,
        verbose: bool,
    ) -> Mapping[str, Any]:
        """The result of a run of the CLI, which is ended if anything is raised here."""
        work = folder / "work"  # neither instructions of a project nor its version control
        work.mkdir()
        try:
            # CRITICAL: Claude Code CLI stdin behavior
            # =========================================
            # The Claude Code CLI hangs indefinitely if stdin is not closed.
            # This is because the CLI waits for potential user input even when
            # running non-interactively. Always use stdin=DEVNULL, in both modes.
            # See https://github.com/anthropics/claude-code/issues/1292
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=DEVNULL,
                stdout=PIPE,
                stderr=PIPE,
                cwd=work,
                env=self._environment(folder, timeout_s),
                start_new_session=True,  # a group, so that all its processes can be ended
            )
        except OSError as error:
            raise ProviderFailed(f"cannot run {command[0]}: {error.strerror}") from None
        output = asyncio.create_task(self._output(process, verbose=verbose))
        watch = asyncio.create_task(self._watch(events))
        try:
            await asyncio.wait((output, watch), return_when=asyncio.FIRST_COMPLETED)
            if watch.done():
                watch.result()
            return output.result()
        finally:
            for task in (output, watch):
                task.cancel()
            await _end_group(process, events)

    async def _output(self, process: Process, *, verbose: bool) -> Mapping[str, Any]:
        """The result that the CLI prints; in verbose mode, events are shown as they arrive."""
        assert process.stdout is not None  # noqa: S101 # a pipe
        assert process.stderr is not None  # noqa: S101 # a pipe
        errors = asyncio.create_task(process.stderr.read())
        result: Mapping[str, Any] | None = None
        other_line = ""
        async for line in _lines(process.stdout):
            try:
                document = json.loads(line)
            except (ValueError, RecursionError):
                other_line = other_line or shortened(line)
                continue
            # The settings of a user can make quiet mode print the list of all events.
            for event in document if isinstance(document, list) else [document]:
                if not isinstance(event, dict):
                    continue
                if event.get("type") == "result":
                    result = event
                elif verbose:
                    self._show(event)
        error_line = (await errors).decode("utf-8", "replace").strip().rpartition("\n")[2]
        code = await process.wait()
        if result is None:
            words = error_line or other_line or "it printed nothing"
            raise self._failed(f"no result, exit code {code}: {words}")
        return result

    def _show(self, event: Mapping[str, Any]) -> None:
        """Show an event.  Raises `ProviderFailed` for the start of a run without tools."""
        for server in _objects(event.get("mcp_servers")):
            if server.get("name") == SERVER_NAME and server.get("status") == "failed":
                raise self._failed(_NO_TOOLS)
        message = event.get("message")
        for block in _objects(message.get("content") if isinstance(message, dict) else None):
            match block:
                case {"type": "text", "text": str(text)} if event.get("type") == "assistant":
                    self._context.show(text)
                case {"type": "tool_use", "name": str(name), "input": arguments}:
                    shown = json.dumps(arguments, ensure_ascii=False)
                    self._context.show(f"{name.removeprefix(_TOOL_PREFIX)} {shortened(shown)}")
                case {"type": "tool_result", "content": content}:
                    texts = [str(part.get("text", "")) for part in _objects(content)]
                    shown = content if isinstance(content, str) else "".join(texts)
                    self._context.show(f"  → {shortened(shown)}")
                case _:
                    pass

    def _verdict(self, spec: TestSpec, result: Mapping[str, Any]) -> Verdict:
        """The verdict in a result of the CLI."""
        match result:
            case {"usage": {"input_tokens": int(read), "output_tokens": int(written)} as usage}:
                cached = ("cache_read_input_tokens", "cache_creation_input_tokens")
                self.usage = RunUsage(
                    turns=result.get("num_turns", 0),
                    input_tokens=read + sum(usage.get(name) or 0 for name in cached),
                    output_tokens=written,
                    cost_usd=result.get("total_cost_usd"),
                )
            case _:
                pass
        if self._start_failure:
            raise ProviderFailed(self._start_failure)
        if result.get("subtype") == "error_max_turns":
            raise too_many_turns(spec)
        text = result.get("result")
        if result.get("is_error") or not isinstance(text, str):
            errors = result.get("errors")
            words = "; ".join(map(str, errors)) if isinstance(errors, list) else ""
            raise self._failed(str(text or words or result.get("subtype")))
        if not self._has_tools:
            raise self._failed(_NO_TOOLS)
        return parse_verdict(text)

    async def _watch(self, events: EventReader) -> None:
        """Take calls over from the MCP server until it reports that it cannot start."""
        while not self._start_failure:
            self._take_events(events)
            await asyncio.sleep(_POLL_S)
        raise ProviderFailed(self._start_failure)

    def _take_events(self, events: EventReader) -> None:
        for event in events.new_events():
            if event.failure:
                self._start_failure = f"the MCP server cannot start: {event.failure}"
            if event.call is not None:
                self._context.toolset.calls.append(event.call)
            self._has_tools = self._has_tools or event.is_ready

    def _failed(self, reason: str) -> ProviderFailed:
        return ProviderFailed(f"{self.name}: {reason}")


async def _end_group(process: Process, events: EventReader) -> None:
    """End the CLI and all that it has started, after the tools have cleaned up."""
    try:
        if process.returncode is None:
            _signal_group(process, signal.SIGTERM)
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLEANUP_LIMIT_S):
                await process.wait()
                while events.has_writer:  # noqa: ASYNC110 # another process
                    await asyncio.sleep(_POLL_S)
    finally:
        _signal_group(process, signal.SIGKILL)
    with suppress(TimeoutError):
        async with asyncio.timeout(_KILL_LIMIT_S):
            await process.wait()


def _signal_group(process: Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):  # macOS: a group of zombies
        os.killpg(process.pid, number)


async def _lines(stream: asyncio.StreamReader) -> AsyncIterator[str]:
    """The lines of a stream as they arrive, however long."""
    pieces: list[bytes] = []
    while piece := await stream.read(_READ_SIZE):
        *complete, rest = piece.split(b"\n")
        for line in complete:
            yield b"".join([*pieces, line]).decode("utf-8", "replace")
            pieces = []
        pieces.append(rest)
    if any(pieces):
        yield b"".join(pieces).decode("utf-8", "replace")


def _objects(value: Any) -> list[dict[str, Any]]:
    """The JSON objects of a list; of anything else, none."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
