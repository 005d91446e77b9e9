"""The `llm-proxy` command line, run in its own process."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import llm_proxy
from forked_commands import Process, start_forked, start_forked_on
from raw_http import send_request
from waiting import wait_for_first_line

_SOURCES = str(Path(llm_proxy.__file__).parents[1])
_COMMAND = (sys.executable, "-m", "llm_proxy")
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
        """Wait for its end and return its result; an `AssertionError` says what it does instead."""
        end = asyncio.ensure_future(self.process.communicate())
        ended, _ = await asyncio.wait([end], timeout=timeout_s)
        if not ended:
            self.send(signal.SIGABRT)  # a forked command prints its stack
            await asyncio.wait([end], timeout=60)  # its own child may keep stderr open
            stack = end.result()[1].decode() if end.done() else ""
            raise AssertionError(f"it ran for more than {timeout_s} s:\n{stack}")
        stdout, stderr = await end
        assert self.process.returncode is not None
        return CommandResult(self.process.returncode, stdout.decode(), stderr.decode())


async def run_command(
    *arguments: str,
    folder: Path,
    env: Mapping[str, str] | None = None,
    prefix: Sequence[str] = (),
    preparation: str = "",
    timeout_s: float = 20.0,
) -> CommandResult:
    """Run `llm-proxy` with these arguments in `folder`, to its end.

    The Python statements of `preparation` run before it in its process.  `prefix` precedes the
    Python interpreter; with one, the command is not forked.
    """
    running = await _start_command(arguments, folder, env or {}, prefix, preparation)
    return await running.wait_for_end(timeout_s)


def start_command_on(
    descriptors: tuple[int, int, int],
    *arguments: str,
    folder: Path,
    env: Mapping[str, str] | None = None,
    preparation: str = "",
) -> Callable[[], int]:
    """Start `llm-proxy` with this stdin, stdout and stderr.

    Returns a function that waits for its end and returns the exit code.
    """
    bare = environment(folder, **env or {})
    if _can_be_forked(env or {}):
        return start_forked_on(descriptors, arguments, folder, bare, preparation)
    stdin, stdout, stderr = descriptors
    process = subprocess.Popen(
        [*_preparing(preparation), *_COMMAND, *arguments],
        cwd=folder,
        env=bare,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
    )
    return lambda: process.wait(20)


@asynccontextmanager
async def running_command(
    *arguments: str, folder: Path, env: Mapping[str, str] | None = None
) -> AsyncIterator[RunningCommand]:
    """Run `llm-proxy` with these arguments in `folder`; it is killed on exit if still running."""
    running = await _start_command(arguments, folder, env or {})
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
    port_file.unlink(missing_ok=True)  # of a server that was killed
    options = ("--port", "0", "--port-file", str(port_file))
    async with running_command(mode, *options, *arguments, folder=folder, env=env) as running:
        running.url = f"http://127.0.0.1:{await wait_for_first_line(port_file)}"
        yield running


async def run_requests(
    mode: str,
    *arguments: str,
    folder: Path,
    requests: Iterable[bytes],
    env: Mapping[str, str] | None = None,
) -> tuple[CommandResult, list[int]]:
    """Run a server, send it these requests one after the other, and stop it.

    Returns its result and the status of each response.
    """
    async with running_server(mode, *arguments, folder=folder, env=env) as running:
        statuses = [(await send_request(running.url, request)).status for request in requests]
        running.send(signal.SIGTERM)
        return await running.wait_for_end(), statuses


async def _start_command(
    arguments: Sequence[str],
    folder: Path,
    env: Mapping[str, str],
    prefix: Sequence[str] = (),
    preparation: str = "",
) -> RunningCommand:
    bare = environment(folder, **env)
    if not prefix and _can_be_forked(env):
        return RunningCommand(await start_forked(arguments, folder, bare, preparation))
    process = await asyncio.create_subprocess_exec(
        *prefix,
        *_preparing(preparation),
        *_COMMAND,
        *arguments,
        cwd=folder,
        env=bare,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    return RunningCommand(process)


def _preparing(preparation: str) -> tuple[str, ...]:
    """A prefix that runs these statements in the process of the command."""
    if not preparation:
        return ()
    execute = "import os, sys; os.execv(sys.argv[1], sys.argv[1:])"
    return (sys.executable, "-c", f"{preparation}\n{execute}")


def _can_be_forked(env: Mapping[str, str]) -> bool:
    return sys.platform == "linux" and not any(map(_affects_python_startup, env))


def _affects_python_startup(name: str) -> bool:
    """Whether a variable has an effect while Python starts and imports.

    A forked command has passed that point, so it would ignore such a variable.
    """
    return name.startswith(
        ("AIOHTTP_", "LANG", "LC_", "PYTHON")
    ) and name not in {"PYTHONIOENCODING", "PYTHONUNBUFFERED"}  # fmt: skip
