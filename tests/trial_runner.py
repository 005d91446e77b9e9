"""Runs the trials of `upstream_endings.py`: upstreams that end early, slow or leaving clients."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Final, Literal
from urllib.parse import urlsplit

from in_process_proxy import proxy
from stub_upstream import Connection, upstream
from stub_upstream import reset as reset  # noqa: PLC0414 # imported by test_endings
from upstream_endings import Case, Trial, parse_trial, random_pieces

STALL_TIMEOUT_S: Final = 1.2
"""The proxy's idle timeout in seconds, for cases in which the upstream stalls."""
_IDLE_TIMEOUT_S: Final = 30.0
"""The same for all other cases."""
_CLIENT_TIMEOUT_S: Final = 0.25
"""Seconds without data after which a leaving client disconnects."""
_MAX_CONCURRENT: Final = 20
"""Number of concurrent trials."""
_TICK_S: Final = 0.005


@dataclass
class TrialTimes:
    """Times of the events of one trial, in seconds of the event loop's clock."""

    requested_at: float = 0.0
    """The upstream received the request."""
    ended_at: float = 0.0
    """The upstream finished its last operation."""
    released_at: float = 0.0
    """The upstream's connection ended, if the upstream did not end it itself."""
    client_left_at: float = 0.0
    """The client disconnected, if it did not read to the end."""


@dataclass
class ClientView:
    """What a client received, and how its connection ended."""

    data: bytes = b""
    ending: Literal["fin", "rst", "left"] = "left"
    ended_at: float = 0.0


@dataclass
class TrialEnvironment:
    """A proxy with an upstream for trials, and what was observed in each trial."""

    proxy_url: str
    times_by_trial: dict[str, TrialTimes] = field(default_factory=dict)
    views_by_trial: dict[str, ClientView] = field(default_factory=dict)
    loop_ticks: list[float] = field(default_factory=list)
    """Times at which the event loop ran the tick recorder, in seconds of its clock."""

    async def record_loop_ticks(self) -> None:
        """Record when the event loop, which all participants share, is not blocked."""
        loop = asyncio.get_running_loop()
        while True:
            self.loop_ticks.append(loop.time())
            await asyncio.sleep(_TICK_S)

    def loop_blocked_s(self, start: float, end: float) -> float:
        """Seconds for which the event loop was blocked, which no verdict counts."""
        loop_ticks = [start, *(tick for tick in self.loop_ticks if start < tick < end), end]
        return sum(max(0.0, b - a - _TICK_S) for a, b in pairwise(loop_ticks))

    async def run(self, trials: Iterable[Trial]) -> None:
        """Run these trials, a limited number concurrently."""
        semaphore = asyncio.Semaphore(_MAX_CONCURRENT)

        async def run_one(trial: Trial) -> None:
            async with semaphore:
                self.times_by_trial[trial.name] = times = TrialTimes()
                self.views_by_trial[trial.name] = await _run_client(self.proxy_url, trial, times)

        shuffled = sorted(trials, key=lambda trial: trial.random_for("order").random())
        async with asyncio.TaskGroup() as group:
            for trial in shuffled:
                group.create_task(run_one(trial))


@asynccontextmanager
async def trial_environment(
    folder: Path, *, stalls: bool, finishing: bool
) -> AsyncIterator[TrialEnvironment]:
    """Run an upstream that ends as each request specifies, behind a proxy that records to `folder`.

    `stalls` is whether all its trials stall; else none may.
    """
    environment = TrialEnvironment("")
    idle = STALL_TIMEOUT_S if stalls else _IDLE_TIMEOUT_S

    async def script(connection: Connection) -> None:
        name = json.loads(connection.body)["messages"][0]["content"]
        await _break_off(connection, parse_trial(name), environment.times_by_trial[name])

    async with upstream(script) as live_upstream:
        async with proxy(
            "record", folder, live_upstream.url, idle_timeout=idle, finish_on_disconnect=finishing
        ) as recording:
            environment.proxy_url = recording.url
            tick_recorder = asyncio.ensure_future(environment.record_loop_ticks())
            yield environment
            await recording.drain(asyncio.Event())
            tick_recorder.cancel()


async def _break_off(connection: Connection, trial: Trial, times: TrialTimes) -> None:
    loop = asyncio.get_running_loop()
    times.requested_at = loop.time()
    wire_bytes, _ = trial.upstream_output
    rng = trial.random_for("writes")
    without_pauses = rng.random() < 0.4
    sock = connection.writer.get_extra_info("socket")
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        for number, piece in enumerate(random_pieces(wire_bytes, rng)):
            if number and not without_pauses:
                await asyncio.sleep(rng.choice([0, 0, 0, 0.001, 0.003]))
            await connection.send(piece)
        await _end_connection(connection, trial.case, times)
    except ConnectionError:
        times.ended_at = times.ended_at or loop.time()
        times.released_at = loop.time()
        raise


async def _end_connection(connection: Connection, case: Case, times: TrialTimes) -> None:
    loop = asyncio.get_running_loop()
    times.ended_at = loop.time()
    match case.upstream_end:
        case "clean" if case.body_framing != "close":
            return  # the connection stays open for the next request
        case "clean" | "fin" | "mid-chunk":
            connection.fin()
        case "rst":
            await connection.rst()
        case _:
            with suppress(ConnectionError):
                await connection.reader.read(1)
            times.released_at = loop.time()
            connection.fin()


async def _run_client(url: str, trial: Trial, times: TrialTimes) -> ClientView:
    """Run the client on a plain socket, because stream readers drop bytes upon a reset."""
    loop = asyncio.get_running_loop()
    parts = urlsplit(url)
    rng = trial.random_for("client")
    with socket.socket() as sock:
        sock.settimeout(0)
        if trial.client == "slow":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        await loop.sock_connect(sock, (parts.hostname, parts.port))
        request_line, _, rest = trial.request.partition(b"\r\n")
        host = f"Host: {parts.netloc}\r\n".encode()
        await loop.sock_sendall(sock, request_line + b"\r\n" + host + rest)
        async with asyncio.timeout(20):
            view = await _receive(sock, trial, rng)
        view.ended_at = loop.time()
        if view.ending == "left":
            times.client_left_at = view.ended_at
        return view


async def _receive(sock: socket.socket, trial: Trial, rng: Random) -> ClientView:
    loop = asyncio.get_running_loop()
    view = ClientView()
    byte_limit = rng.choice([0, 1, 200, 400, 2000]) if trial.client == "gone" else None
    if trial.client == "slow":
        await asyncio.sleep(rng.uniform(0.05, 0.2))
    if trial.client == "gone":
        await asyncio.sleep(rng.choice([0.0, 0.005, 0.05]))
    while byte_limit is None or len(view.data) < byte_limit:
        try:
            async with asyncio.timeout(_CLIENT_TIMEOUT_S if trial.client == "gone" else None):
                data = await loop.sock_recv(sock, rng.choice([500, 65536]))
        except TimeoutError:
            return view
        except ConnectionResetError:
            view.ending = "rst"
            return view
        if not data:
            view.ending = "fin"
            return view
        view.data += data
    return view
