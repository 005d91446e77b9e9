"""The `llm-proxy` command line, run in its own process."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import llm_proxy
from forked_commands import Process, start_forked
from waiting import wait_for_first_line

_SOURCES = str(Path(llm_proxy.__file__).parents[1])
_INHERITED_VARIABLES = (
    "PATH",
    "LANG",
    "SYSTEMROOT",
    "VIRTUAL_ENV",
    "TMPDIR",
    "COVERAGE_PROCESS_START",
)


def environment(folder: Path, **extra: str) -> dict[str, str]:
    """A bare environment for a child process: no settings of this machine, a home in `folder`."""
    bare = {name: os.environ[name] for name in _INHERITED_VARIABLES if name in os.environ}
    home = {"HOME": str(folder), "XDG_STATE_HOME": str(folder / "state")}
    return bare | home | {"PYTHONPATH": _SOURCES} | extra


@dataclass
class CommandResult:
    """The exit code and output of a command that has ended."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def last_error_line(self) -> str:
        """The last line on stderr."""
        return self.stderr.strip().rpartition("\n")[2]


@dataclass
class RunningCommand:
    """A running command; `url` is set for a server."""

    process: Process
    url: str = ""

    def send(self, signal_number: signal.Signals) -> None:
        """Send a signal to the command."""
        self.process.send_signal(signal_number)

    async def wait_for_end(self, timeout_s: float = 20.0) -> CommandResult:
        """Wait for its end and return its result; raises `TimeoutError`."""
        async with asyncio.timeout(timeout_s):
            stdout, stderr = await self.process.communicate()
        assert self.process.returncode is not None
        return CommandResult(self.process.returncode, stdout.decode(), stderr.decode())


async def run_command(
    *arguments: str,
    folder: Path,
    env: Mapping[str, str] | None = None,
    prefix: Sequence[str] = (),
    timeout_s: float = 20.0,
) -> CommandResult:
    """Run `llm-proxy` with these arguments in `folder`, to its end.

    `prefix` precedes the Python interpreter; with one, the command is not forked.
    """
    return await (await _start_command(arguments, folder, env or {}, prefix)).wait_for_end(
        timeout_s
    )


@asynccontextmanager
async def running_command(
    *arguments: str, folder: Path, env: Mapping[str, str] | None = None
) -> AsyncIterator[RunningCommand]:
    """Run `llm-proxy` with these arguments in `folder`; it is killed on exit if still running."""
    running = await _start_command(arguments, folder, env or {}, ())
    try:
        yield running
    finally:
        if running.process.returncode is None:
            running.process.kill()
            await running.process.communicate()


@asynccontextmanager
async def running_server(
    mode: str, *arguments: str, folder: Path, env: Mapping[str, str] | None = None
) -> AsyncIterator[RunningCommand]:
    """Run a server in `folder`, with its spool and cassettes there; yields once it listens."""
    port_file = folder / "port"
    options = ("--port", "0", "--port-file", str(port_file))
    async with running_command(mode, *options, *arguments, folder=folder, env=env) as running:
        running.url = f"http://127.0.0.1:{await wait_for_first_line(port_file)}"
        yield running


async def _start_command(
    arguments: Sequence[str], folder: Path, env: Mapping[str, str], prefix: Sequence[str]
) -> RunningCommand:
    bare = environment(folder, **env)
    if sys.platform == "linux" and not prefix and not any(map(_affects_python_startup, env)):
        return RunningCommand(await start_forked(arguments, folder, bare))
    process = await asyncio.create_subprocess_exec(
        *prefix,
        sys.executable,
        "-m",
        "llm_proxy",
        *arguments,
        cwd=folder,
        env=bare,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    return RunningCommand(process)


def _affects_python_startup(name: str) -> bool:
    """Whether a variable has an effect while Python starts and imports.

    A forked command has passed that point, so it would ignore such a variable.
    """
    return name.startswith(("AIOHTTP_", "LANG", "LC_", "PYTHON"))
