"""Runs official clients ("judges") against a proxy and parses what each of them received.

A judge is a folder of `tests/judges` with a program that follows the protocol defined in
`judge_protocol.py`.  `scripts/judges` creates an environment for each judge; a judge without a
lock file runs in the process of these tests, as its client is in their environment.

    @pytest.mark.skipif(bool(missing_reason("cohere")), reason=missing_reason("cohere"))
    requests = [JudgeRequest("1", "cohere", "command-a", "Hello", stream=True)]
    responses = await run_judge("cohere", url, requests)
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import IO, Any, Final

import pytest

sys.path.append(str(Path(__file__).resolve().parents[1] / "scripts"))  # not a package
import judge_environments
from checks import DAILY_JUDGES
from judge_environments import Judge

FOLDER: Final = Path(__file__).with_name("judges")
PROTOCOL: Final = FOLDER / "protocol"
"""Code shared by the Python judges."""
sys.path.append(str(PROTOCOL))
STAMP: Final = judge_environments.STAMP_FILE

_TIMEOUT_S: Final = 400.0
"""Time limit in seconds for all requests of one run."""


@dataclass(frozen=True, slots=True)
class JudgeRequest:
    """One request for a judge to send."""

    id: str
    dialect: str
    model: str
    say: str
    """The text of the one user message."""
    stream: bool
    tools: bool = False
    """Whether the tool `get_weather` is offered."""


@dataclass(frozen=True, slots=True)
class JudgeResponse:
    """What a client received; a field is None if the client does not expose or receive it."""

    id: str
    text: str | None
    reasoning: str | None
    refusal: str | None
    calls: list[dict[str, Any]] | None
    """Each has `id`, `name` and `arguments`: the parsed value, or the text if it is not JSON."""
    finish: str | None
    usage: dict[str, int | None] | None
    """`input` and `output`, in tokens."""
    error: dict[str, Any] | None
    """`type`, `status` and `message` of the exception that the client raised."""


def judge_names() -> tuple[str, ...]:
    """Return the names of all judges, installed or not."""
    return tuple(sorted(path.parent.name for path in FOLDER.glob("*/judge.*")))


@cache
def missing_reason(name: str) -> str:
    """Why this judge cannot run here, and how to install it; empty if it can run."""
    judge = Judge(FOLDER / name)
    if judge.is_node and shutil.which("node") is None:
        return f"judge {name}: there is no node"
    return "" if judge.is_installed() else f"judge {name} is not installed: scripts/judges {name}"


def marks(name: str) -> tuple[pytest.MarkDecorator, ...]:
    """The marks of a test with this judge: `thorough` if a daily run does not have it."""
    is_daily = name in DAILY_JUDGES or not Judge(FOLDER / name).lock_file
    return () if is_daily else (pytest.mark.thorough,)


def follows_protocol(name: str) -> bool:
    """Whether this judge follows the protocol; the others are programs that do a task."""
    return (FOLDER / name / "abilities.json").exists()


def load_abilities(name: str) -> dict[str, dict[str, list[str]]]:
    """Load the `JudgeResponse` fields that this judge exposes, by dialect and `stream` or `whole`.

    Also, `own` names the fields that it expresses in its own terms, and `cannot` those that it
    does not expose; each with the reason.
    """
    document: dict[str, dict[str, list[str]]] = json.loads(
        (FOLDER / name / "abilities.json").read_bytes()
    )
    return document


SendRequests = Callable[[str, Sequence[JudgeRequest]], Awaitable[list[JudgeResponse]]]
"""Sends these requests to the proxy at this URL; returns the responses in order."""


@asynccontextmanager
async def running_judge(name: str) -> AsyncIterator[SendRequests]:
    """Run a judge, which sends requests to one proxy after another.

    Sending raises `AssertionError` if the judge itself fails or leaves out a response.
    """
    if not Judge(FOLDER / name).lock_file:
        yield partial(_send_in_this_process, name)
        return
    program = next(FOLDER.joinpath(name).glob("judge.*"))
    async with running_program(program) as process:
        yield partial(_send_to_process, process)


@dataclass(frozen=True, slots=True)
class JudgeProcess:
    """A judge's program that reads lines and writes lines."""

    _process: asyncio.subprocess.Process
    _stderr: IO[bytes]

    async def write_line(self, line: str) -> None:
        """Write a line to its stdin."""
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        await self._process.stdin.drain()

    async def read_line(self) -> bytes:
        """The next line of its stdout; empty if it has ended."""
        assert self._process.stdout is not None
        return await self._process.stdout.readline()

    def stderr_text(self) -> str:
        """What it has printed to stderr so far."""
        self._stderr.seek(0)
        return self._stderr.read().decode(errors="replace")


@asynccontextmanager
async def running_program(program: Path) -> AsyncIterator[JudgeProcess]:
    """Run a judge's program, which ends with the block."""
    with tempfile.TemporaryFile() as stderr:
        process = await asyncio.create_subprocess_exec(
            *_command(program),
            env=_environment(os.environ.items()),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=stderr,
            limit=2**26,
        )
        try:
            yield JudgeProcess(process, stderr)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


async def _send_to_process(
    process: JudgeProcess, url: str, requests: Sequence[JudgeRequest]
) -> list[JudgeResponse]:
    document = {"url": url, "asks": [asdict(request) for request in requests]}
    await process.write_line(json.dumps(document))
    responses: list[JudgeResponse] = []
    with suppress(TimeoutError):
        async with asyncio.timeout(_TIMEOUT_S):
            for request in requests:
                if not (line := await process.read_line()):
                    break
                responses.append(JudgeResponse(**json.loads(line)))
                assert responses[-1].id == request.id, "a judge left out a response"
    if len(responses) < len(requests):
        raise AssertionError(
            f"no response to {requests[len(responses)].id}, and the judge printed: "
            f"{process.stderr_text()}"
        )
    return responses


async def _send_in_this_process(
    name: str, url: str, requests: Sequence[JudgeRequest]
) -> list[JudgeResponse]:
    def send_all() -> list[JudgeResponse]:
        judge = _judge_module(name)
        send_request = judge.make_judge(url)
        make_request = judge.judge_protocol.JudgeRequest.from_json
        return [
            JudgeResponse(**send_request(make_request(asdict(request))).as_json(request.id))
            for request in requests
        ]

    async with asyncio.timeout(_TIMEOUT_S):
        return await asyncio.to_thread(send_all)


@cache
def _judge_module(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"{name}_judge", FOLDER / name / "judge.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def run_judge(name: str, url: str, requests: Sequence[JudgeRequest]) -> list[JudgeResponse]:
    """Send these requests with a judge to the proxy at this URL; return its responses in order."""
    async with running_judge(name) as send:
        return await send(url, requests)


async def run_program(program: Path, document: object) -> bytes:
    """Run a judge's program with this document as JSON on stdin, and return its stdout.

    Raises `AssertionError` if it exits with an error.
    """
    process = await asyncio.create_subprocess_exec(
        *_command(program),
        env=_environment(os.environ.items()),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=2**26,
    )
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            stdout, stderr = await process.communicate(json.dumps(document).encode())
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, (
        f"judge {program.parent.name}: {stderr.decode(errors='replace')}"
    )
    return stdout


def _command(program: Path) -> tuple[str, str]:
    judge = Judge(program.parent)
    if judge.is_node:
        return "node", str(program)
    venv_python = judge.environment_folder / "bin" / "python"
    return str(venv_python), str(program)


def _environment(variables: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Bypass the machine's HTTP proxies, and make only the judge's own packages importable."""
    inherited = {name: value for name, value in variables if not name.upper().endswith("_PROXY")}
    return {**inherited, "NO_PROXY": "127.0.0.1", "PYTHONPATH": str(PROTOCOL), "PYTHONUTF8": "1"}
