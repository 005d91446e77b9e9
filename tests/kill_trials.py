"""Kills a recording proxy at a random moment and checks what is left of its recordings.

Used by `test_kill.py` and by `scripts/torture`.  Several clients read numbered messages through
a real `llm-proxy record`; each notes when it had received how many bytes.  Every message that a
client had received at least 50 ms before the kill must be in the library after `recover`.  Time in
which the proxy waited for a CPU does not count: on a busy machine it gets none for that long.
"""

from __future__ import annotations

import asyncio
import json
import re
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random
from typing import Final
from urllib.parse import urlsplit

from cli_process import running_server
from forked_commands import Process
from llm_proxy.errors import CassetteError
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.recording import recovery
from llm_proxy.shell.recording.recovery import KeptFile
from raw_http import build_http_request
from stub_upstream import Connection, upstream
from waiting import wait_until

SURVIVAL_DELAY_S: Final = 0.05
"""Seconds after which a received message must survive a kill of the proxy."""
_CLIENT_COUNT: Final = 5
_TEXT_CHARS: Final = "abc \u00e9\u65e5\U0001f600\n\\"
_STREAM_NUMBER: Final = re.compile(rb'"stream":(\d+),')


@dataclass
class ReceivedStream:
    """One response, as its client received it."""

    data: bytearray = field(default_factory=bytearray)
    sizes_over_time: list[tuple[float, int]] = field(default_factory=list)
    """Pairs of time, in seconds of the event loop's clock, and body size in bytes."""

    def complete_messages_at(self, moment: float) -> bytes:
        """Return the messages that were complete by then."""
        size = max((size for at, size in self.sizes_over_time if at <= moment), default=0)
        return bytes(self.data[: self.data.rfind(b"\n\n", 0, size) + 2]) if size else b""


@dataclass(frozen=True, slots=True)
class KillVerdict:
    """The result of one kill."""

    seed: int
    stream_count: int
    """Number of responses that had begun."""
    recovered_count: int
    """Number of recordings that were recovered."""
    unreadable: tuple[str, ...]
    """Errors of cassettes that cannot be read and of spools that `recover` could not restore."""
    message_count: int
    """Number of messages that had been received in time."""
    lost_count: int
    """Number of these messages that are in no cassette."""

    @property
    def passed(self) -> bool:
        """Whether nothing is unreadable and no message is lost."""
        return not self.unreadable and not self.lost_count


async def run_kill_trial(folder: Path, seed: int) -> KillVerdict:
    """Record, kill the proxy, recover, and compare."""
    rng = Random(f"kill {seed}")
    streams: dict[int, ReceivedStream] = {}
    options = ("--cassettes", str(folder / "cassettes"), "--spool", str(folder / "spool"))
    async with upstream(_numbered_messages(seed)) as live_upstream:
        upstream_option = f"default={live_upstream.url}"
        async with running_server(
            "record", *options, "--upstream", upstream_option, folder=folder
        ) as running:
            clients = [
                asyncio.ensure_future(_read_repeatedly(running.url, client_number, streams))
                for client_number in range(_CLIENT_COUNT)
            ]
            await wait_until(lambda: bool(streams))
            cpu_waits: list[tuple[float, float]] = []
            run_s = rng.uniform(0.02, 0.7)
            await wait_until(lambda: _note_cpu_wait(running.process.pid, cpu_waits) >= run_s)
            deadline = await _stop(running.process, cpu_waits)
            running.process.kill()
            await running.process.wait()
        for client in clients:
            client.cancel()
            with suppress(asyncio.CancelledError):
                await client
    return _judge(folder, seed, streams, deadline)


def _note_cpu_wait(pid: int, cpu_waits: list[tuple[float, float]]) -> float:
    """Note the time, and how long the process has waited for a CPU until then.

    Returns the seconds since the first note in which it did not wait.
    """
    cpu_waits.append((asyncio.get_running_loop().time(), _cpu_wait_s(pid)))
    (first_at, first_wait_s), (at, wait_s) = cpu_waits[0], cpu_waits[-1]
    return at - first_at - (wait_s - first_wait_s)


async def _stop(process: Process, cpu_waits: list[tuple[float, float]]) -> float:
    """Stop the process, as a kill does, and return by when messages must be stored.

    After that time the process was not waiting for a CPU for `SURVIVAL_DELAY_S`.  A wait that is
    not over yet counts in no statistics, so the process is stopped before it is killed.
    """
    stopped_at = asyncio.get_running_loop().time()
    process.send_signal(signal.SIGSTOP)
    await wait_until(lambda: _is_stopped(process.pid))
    last_wait_s = _cpu_wait_s(process.pid)
    return max(
        (
            at
            for at, wait_s in cpu_waits
            if stopped_at - at - (last_wait_s - wait_s) >= SURVIVAL_DELAY_S
        ),
        default=0.0,
    )


def _cpu_wait_s(pid: int) -> float:
    """Seconds for which the threads of a process have waited for a CPU; 0 where unknown."""
    files = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(file.read_text().split()[1]) for file in files) / 1e9


def _is_stopped(pid: int) -> bool:
    """Whether a process has been stopped; True where unknown."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("T")
    except OSError:
        return True


def _numbered_messages(seed: int) -> Callable[[Connection], Awaitable[None]]:
    """An upstream that streams numbered messages, some milliseconds apart."""
    stream_numbers = count(1)

    async def script(connection: Connection) -> None:
        stream_number = next(stream_numbers)
        rng = Random(f"stream {seed} {stream_number}")
        await connection.begin()
        for number in range(rng.choice([3, 30, 300])):
            text = "".join(rng.choices(_TEXT_CHARS, k=rng.choice([5, 100, 2000])))
            event = {"stream": stream_number, "number": number, "text": text}
            payload = json.dumps(event, ensure_ascii=False, separators=(",", ":"))
            message = f"data: {payload}\n\n".encode()
            cut = rng.randrange(len(message))
            for piece in filter(None, (message[:cut], message[cut:])):
                await connection.chunk(piece)
            await asyncio.sleep(rng.uniform(0, 0.008))
        await connection.chunk(b"data: [DONE]\n\n")
        await connection.finish()

    return script


async def _read_repeatedly(
    url: str, client_number: int, streams: dict[int, ReceivedStream]
) -> None:
    """Send requests until the proxy is killed; every second client repeats the same one."""
    with suppress(OSError, asyncio.IncompleteReadError):
        for attempt in count():
            content = f"client {client_number}" + (
                f", request {attempt}" if client_number % 2 else ""
            )
            await _read_response(url, content, streams)


async def _read_response(url: str, content: str, streams: dict[int, ReceivedStream]) -> None:
    loop = asyncio.get_running_loop()
    parts = urlsplit(url)
    body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": content}]}
    request = build_http_request(
        "/v1/chat/completions", json.dumps(body).encode(), f"Host: {parts.netloc}"
    )
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    stream = ReceivedStream()
    try:
        writer.write(request)
        await reader.readuntil(b"\r\n\r\n")
        while size := int(await reader.readuntil(b"\r\n"), 16):
            stream.data += (await reader.readexactly(size + 2))[:-2]
            stream.sizes_over_time.append((loop.time(), len(stream.data)))
            if (match := _STREAM_NUMBER.search(stream.data)) is not None:
                streams[int(match[1])] = stream
        await reader.readexactly(2)
    finally:
        writer.close()


def _judge(
    folder: Path, seed: int, streams: dict[int, ReceivedStream], deadline: float
) -> KillVerdict:
    unreadable = [*_unreadable_files(folder / "cassettes")]
    results = list(recovery.recover_spools(Library(folder / "cassettes"), folder / "spool"))
    unreadable += [result.reason for result in results if isinstance(result, KeptFile)]
    unreadable += _unreadable_files(folder / "cassettes")
    stored_bodies = _stored_bodies(folder / "cassettes")
    message_count = lost_count = 0
    for stream_number, stream in streams.items():
        received_messages = stream.complete_messages_at(deadline).split(b"\n\n")[:-1]
        stored_messages = stored_bodies.get(stream_number, b"").split(b"\n\n")[:-1]
        message_count += len(received_messages)
        lost_count += sum(
            received != stored
            for received, stored in zip(received_messages, stored_messages, strict=False)
        )
        lost_count += max(0, len(received_messages) - len(stored_messages))
    recovered_count = sum(not isinstance(result, KeptFile) for result in results)
    return KillVerdict(
        seed, len(streams), recovered_count, tuple(unreadable), message_count, lost_count
    )


def _unreadable_files(root: Path) -> list[str]:
    library = Library(root)
    library.refresh()
    unreadable = []
    for path in library.cassette_paths():
        try:
            library.load_cassette(path)
        except CassetteError as error:
            unreadable.append(str(error))
    return unreadable


def _stored_bodies(root: Path) -> dict[int, bytes]:
    """Return the stored body of each stream, by the stream's number."""
    library = Library(root)
    library.refresh()
    bodies = {}
    for path in library.cassette_paths():
        body = library.load_cassette(path).response_body
        if (match := _STREAM_NUMBER.search(body)) is not None:
            bodies[int(match[1])] = body
    return bodies
