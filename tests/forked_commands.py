"""Commands that need not be imported anew for each test: forked from a process that waits.

They are processes like any other, with their own id, signals, folder, environment and streams;
only the time that Python takes to start and to import is saved.
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
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Protocol

import llm_proxy


class Process(Protocol):
    """What tests want of a process: `asyncio.subprocess.Process` has it too."""

    @property
    def pid(self) -> int:
        """Its id."""

    @property
    def returncode(self) -> int | None:
        """How it ended; None where it has not."""

    stdout: asyncio.StreamReader | None

    async def wait(self) -> int:
        """Wait for its end."""

    async def communicate(self) -> tuple[bytes, bytes]:
        """Read all that it says, and wait for its end."""

    def send_signal(self, signal: int) -> None:
        """Signal it."""

    def kill(self) -> None:
        """End it for good."""


class Forked:
    """A command that was forked."""

    def __init__(
        self,
        pid: int,
        streams: tuple[asyncio.StreamReader, asyncio.StreamReader],
        ending: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.pid = pid
        self.stdout: asyncio.StreamReader | None = streams[0]
        self.returncode: int | None = None
        self._streams = streams
        self._learning = asyncio.ensure_future(self._learn(ending, writer))

    async def _learn(self, ending: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
        """Learn how it ended."""
        self.returncode = int(await ending.readline())
        writer.close()
        return self.returncode

    async def wait(self) -> int:
        """Wait for its end."""
        return await asyncio.shield(self._learning)

    async def communicate(self) -> tuple[bytes, bytes]:
        """Read all that it says, and wait for its end."""
        out, err = await asyncio.gather(*(stream.read() for stream in self._streams))
        await self.wait()
        return out, err

    def send_signal(self, signal: int) -> None:
        """Signal it, unless it is known to have ended."""
        if self.returncode is None:
            os.kill(self.pid, signal)

    def kill(self) -> None:
        """End it for good."""
        self.send_signal(signal.SIGKILL)


async def forked(arguments: Sequence[str], folder: Path, environment: Mapping[str, str]) -> Forked:
    """`llm-proxy` with these arguments, in this folder and environment."""
    asked = {"arguments": list(arguments), "folder": str(folder), "environment": dict(environment)}
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(_zygote(os.getpid())))
    (out, their_out), (err, their_err) = os.pipe(), os.pipe()
    theirs = (os.open(os.devnull, os.O_RDONLY), their_out, their_err)
    socket.send_fds(connection, [json.dumps(asked).encode() + b"\n"], theirs)
    for descriptor in theirs:
        os.close(descriptor)
    ending, writer = await asyncio.open_unix_connection(sock=connection)
    pid = int(await ending.readline())
    return Forked(pid, (await _reader(out), await _reader(err)), ending, writer)


async def _reader(descriptor: int) -> asyncio.StreamReader:
    """What can be read from a pipe."""
    reader = asyncio.StreamReader()
    pipe = os.fdopen(descriptor, "rb", buffering=0)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    return reader


@cache
def _zygote(_worker: int) -> Path:
    """Where the process of this worker listens; it ends with us."""
    folder = Path(tempfile.mkdtemp(prefix="llm-proxy-tests-"))
    process = subprocess.Popen(
        (sys.executable, str(Path(__file__).with_name("fork_server.py")), str(folder / "zygote")),
        env={**os.environ, "PYTHONPATH": str(Path(llm_proxy.__file__).parents[1])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.readline()  # it listens
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(process.communicate)  # which closes its stdin
    return folder / "zygote"
