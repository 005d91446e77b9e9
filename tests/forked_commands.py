"""Commands forked from a process that has imported llm-proxy, to save start-up time.

They are ordinary processes, with their own id, signals, folder, environment and streams; only the
time that Python takes to start and to import is saved.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Protocol

import llm_proxy


class Process(Protocol):
    """The interface of a process that tests use; `asyncio.subprocess.Process` has it too."""

    @property
    def pid(self) -> int:
        """The process id."""

    @property
    def returncode(self) -> int | None:
        """The exit code; None while it runs."""

    stdout: asyncio.StreamReader | None

    async def wait(self) -> int:
        """Wait for its end; return the exit code."""

    async def communicate(self) -> tuple[bytes, bytes]:
        """Read stdout and stderr to their ends, and wait for the exit."""

    def send_signal(self, signal: int) -> None:
        """Send a signal."""

    def kill(self) -> None:
        """Send SIGKILL."""


class ForkedProcess:
    """A forked command."""

    def __init__(
        self,
        pid: int,
        streams: tuple[asyncio.StreamReader, asyncio.StreamReader],
        status_reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.pid = pid
        self.stdout: asyncio.StreamReader | None = streams[0]
        self.returncode: int | None = None
        self._streams = streams
        self._exit_task = asyncio.ensure_future(self._read_exit_code(status_reader, writer))

    async def _read_exit_code(
        self, status_reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> int:
        """Read the exit code that the forking process reports."""
        self.returncode = int(await status_reader.readline())
        writer.close()
        return self.returncode

    async def wait(self) -> int:
        """Wait for its end; return the exit code."""
        return await asyncio.shield(self._exit_task)

    async def communicate(self) -> tuple[bytes, bytes]:
        """Read stdout and stderr to their ends, and wait for the exit."""
        out, err = await asyncio.gather(*(stream.read() for stream in self._streams))
        await self.wait()
        return out, err

    def send_signal(self, signal: int) -> None:
        """Send a signal, unless it is known to have ended."""
        if self.returncode is None:
            os.kill(self.pid, signal)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)


async def start_forked(
    arguments: Sequence[str], folder: Path, environment: Mapping[str, str], preparation: str = ""
) -> ForkedProcess:
    """Start `llm-proxy` with these arguments, in this folder and environment.

    The Python statements of `preparation` run first, in the new process.
    """
    (out, child_out), (err, child_err) = os.pipe(), os.pipe()
    child_descriptors = (os.open(os.devnull, os.O_RDONLY), child_out, child_err)
    connection = _request_fork(arguments, folder, environment, preparation, child_descriptors)
    for descriptor in child_descriptors:
        os.close(descriptor)
    status_reader, writer = await asyncio.open_unix_connection(sock=connection)
    pid = int(await status_reader.readline())
    return ForkedProcess(pid, (await _reader(out), await _reader(err)), status_reader, writer)


def start_forked_on(
    descriptors: tuple[int, int, int],
    arguments: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    preparation: str = "",
) -> Callable[[], int]:
    """As `start_forked`, with this stdin, stdout and stderr.

    Returns a function that waits for its end and returns the exit code.
    """
    connection = _request_fork(arguments, folder, environment, preparation, descriptors)
    connection.settimeout(20)

    def wait() -> int:
        with connection, connection.makefile() as status:
            _, exit_code = status
        return int(exit_code)

    return wait


def _request_fork(
    arguments: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    preparation: str,
    descriptors: tuple[int, int, int],
) -> socket.socket:
    """Request a command from the forking process; returns the connection for its response."""
    request = {
        "arguments": ["-m", "llm_proxy", *arguments],
        "folder": str(folder),
        "environment": dict(environment),
        "preparation": preparation,
    }
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(fork_server_socket(os.getpid())))
    socket.send_fds(connection, [json.dumps(request).encode() + b"\n"], list(descriptors))
    return connection


_FORKED_PROGRAM = """#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as connection:
    connection.connect({socket!r})
    request = {{
        "arguments": [*{arguments}, *sys.argv[1:]],
        "folder": os.getcwd(),
        "environment": dict(os.environ),
    }}
    socket.send_fds(connection, [json.dumps(request).encode() + b"\\n"], [0, 1, 2])
    code = int(connection.makefile().readlines()[1])
sys.exit(code if code >= 0 else 128 - code)
"""
"""A program that runs Python with these arguments, and its own, in a forked process."""


def write_forked_programs(
    folder: Path, programs: Mapping[str, Sequence[str]], *modules: str
) -> None:
    """Write programs that run Python with these arguments, and with these modules imported."""
    path = str(fork_server_socket(os.getpid(), *modules))
    for name, arguments in programs.items():
        program = folder / name
        program.write_text(
            _FORKED_PROGRAM.format(python=sys.executable, socket=path, arguments=list(arguments))
        )
        program.chmod(0o755)


async def _reader(descriptor: int) -> asyncio.StreamReader:
    """A stream reader of a pipe."""
    reader = asyncio.StreamReader()
    pipe = os.fdopen(descriptor, "rb", buffering=0)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    return reader


@cache
def fork_server_socket(_worker: int, *modules: str) -> Path:
    """Start a forking process of this test worker, which ends with it; return its socket.

    It has these modules imported besides llm-proxy.
    """
    folder = Path(tempfile.mkdtemp(prefix="llm-proxy-tests-"))
    script = str(Path(__file__).with_name("fork_server.py"))
    process = subprocess.Popen(
        (sys.executable, script, str(folder / "zygote"), *modules),
        env={**os.environ, "PYTHONPATH": str(Path(llm_proxy.__file__).parents[1])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.readline()  # it writes a line once it listens
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(process.communicate)  # which closes its stdin
    return folder / "zygote"
