"""The command line as a user meets it: in a process of its own."""

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
from forked_commands import Process, forked
from waiting import appeared

_SOURCES = str(Path(llm_proxy.__file__).parents[1])
_KEPT = ("PATH", "LANG", "SYSTEMROOT", "VIRTUAL_ENV", "TMPDIR", "COVERAGE_PROCESS_START")


def environment(folder: Path, **more: str) -> dict[str, str]:
    """A bare environment for a child: nothing of this machine's settings, a home in `folder`."""
    bare = {name: os.environ[name] for name in _KEPT if name in os.environ}
    home = {"HOME": str(folder), "XDG_STATE_HOME": str(folder / "state")}
    return bare | home | {"PYTHONPATH": _SOURCES} | more


@dataclass
class Ran:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def complaint(self) -> str:
        """The last line on stderr."""
        return self.err.strip().rpartition("\n")[2]


@dataclass
class Running:
    """A command that runs."""

    process: Process
    url: str = ""

    def send(self, number: signal.Signals) -> None:
        """Signal the command itself."""
        self.process.send_signal(number)

    async def ended(self, within: float = 20.0) -> Ran:
        """Its end."""
        async with asyncio.timeout(within):
            out, err = await self.process.communicate()
        assert self.process.returncode is not None
        return Ran(self.process.returncode, out.decode(), err.decode())


async def run(
    *arguments: str,
    folder: Path,
    env: Mapping[str, str] | None = None,
    prefix: Sequence[str] = (),
    within: float = 20.0,
) -> Ran:
    """`llm-proxy` with these arguments, run to its end in `folder`."""
    return await (await _start(arguments, folder, env or {}, prefix)).ended(within)


@asynccontextmanager
async def started(
    *arguments: str, folder: Path, env: Mapping[str, str] | None = None
) -> AsyncIterator[Running]:
    """`llm-proxy` with these arguments, running in `folder`, and killed if it still does after."""
    running = await _start(arguments, folder, env or {}, ())
    try:
        yield running
    finally:
        if running.process.returncode is None:
            running.process.kill()
            await running.process.communicate()


@asynccontextmanager
async def serving(
    mode: str, *arguments: str, folder: Path, env: Mapping[str, str] | None = None
) -> AsyncIterator[Running]:
    """A server at the command line, once it listens; its spool and cassettes are in `folder`."""
    port_file = folder / "port"
    options = ("--port", "0", "--port-file", str(port_file))
    async with started(mode, *options, *arguments, folder=folder, env=env) as running:
        running.url = f"http://127.0.0.1:{await appeared(port_file)}"
        yield running


async def _start(
    arguments: Sequence[str], folder: Path, env: Mapping[str, str], prefix: Sequence[str]
) -> Running:
    bare = environment(folder, **env)
    if sys.platform == "linux" and not prefix and not any(map(_is_of_pythons, env)):
        return Running(await forked(arguments, folder, bare))
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
    return Running(process)


def _is_of_pythons(name: str) -> bool:
    """Whether a variable counts while Python starts and imports."""
    return name.startswith(("AIOHTTP_", "LANG", "LC_", "PYTHON"))
