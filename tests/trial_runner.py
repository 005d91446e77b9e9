"""Runs trials of `upstream_endings.py`: the upstream that breaks off, and clients that make it hard."""

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
from stub_upstream import reset as reset  # noqa: PLC0414 # tests of endings take it from here
from upstream_endings import Case, Trial, parse, pieces

IDLE: Final = 1.2
"""Seconds that an upstream may be silent whose case is to stall."""
_PATIENT: Final = 30.0
"""Seconds that any other may."""
_DULL: Final = 0.25
"""Seconds after which a client leaves to which nothing comes."""
_AT_ONCE: Final = 20
"""Trials that run at the same time."""
_BEAT: Final = 0.005


@dataclass
class Moments:
    """When things happened to one trial, in seconds of the loop's clock."""

    asked: float = 0.0
    """The upstream had the request."""
    broke: float = 0.0
    """The upstream had done its last deed."""
    released: float = 0.0
    """The upstream saw its connection end, where it did not end it itself."""
    left: float = 0.0
    """The client closed, where it did not read to the end."""


@dataclass
class Seen:
    """What a client got."""

    data: bytes = b""
    how: Literal["fin", "rst", "left"] = "left"
    at: float = 0.0


@dataclass
class Field:
    """Where trials run: an upstream, a proxy in front of it, and what happened."""

    proxy_url: str
    moments: dict[str, Moments] = field(default_factory=dict)
    seen: dict[str, Seen] = field(default_factory=dict)
    beats: list[float] = field(default_factory=list)
    """Moments at which the event loop had its turn, in seconds of its clock."""

    async def beat(self) -> None:
        """Feel the pulse of the event loop that everybody here shares."""
        loop = asyncio.get_running_loop()
        while True:
            self.beats.append(loop.time())
            await asyncio.sleep(_BEAT)

    def stolen(self, since: float, until: float) -> float:
        """Seconds in which the event loop had no turn: they are nobody's fault."""
        beats = [since, *(beat for beat in self.beats if since < beat < until), until]
        return sum(max(0.0, b - a - _BEAT) for a, b in pairwise(beats))

    async def run(self, trials: Iterable[Trial]) -> None:
        """Run these trials, some at a time."""
        places = asyncio.Semaphore(_AT_ONCE)

        async def one(trial: Trial) -> None:
            async with places:
                self.moments[trial.name] = moments = Moments()
                self.seen[trial.name] = await _converse(self.proxy_url, trial, moments)

        mixed = sorted(trials, key=lambda trial: trial.random("order").random())
        async with asyncio.TaskGroup() as group:
            for trial in mixed:
                group.create_task(one(trial))


@asynccontextmanager
async def trial_field(folder: Path, case: Case, *, finishing: bool) -> AsyncIterator[Field]:
    """An upstream that breaks off as it is asked to, behind a proxy that records to `folder`.

    `case` is the case of all its trials.
    """
    it = Field("")
    idle = IDLE if case.end == "stall" else _PATIENT

    async def script(connection: Connection) -> None:
        name = json.loads(connection.body)["messages"][0]["content"]
        await _break_off(connection, parse(name), it.moments[name])

    async with upstream(script) as live:
        async with proxy(
            "record", folder, live.url, idle_timeout=idle, finish_on_disconnect=finishing
        ) as recording:
            it.proxy_url = recording.url
            pulse = asyncio.ensure_future(it.beat())
            yield it
            await recording.drain(asyncio.Event())
            pulse.cancel()


async def _break_off(connection: Connection, trial: Trial, moments: Moments) -> None:
    loop = asyncio.get_running_loop()
    moments.asked = loop.time()
    wire, _ = trial.wire
    roll = trial.random("writes")
    hurry = roll.random() < 0.4
    sock = connection.writer.get_extra_info("socket")
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        for number, piece in enumerate(pieces(wire, roll)):
            if number and not hurry:
                await asyncio.sleep(roll.choice([0, 0, 0, 0.001, 0.003]))
            await connection.send(piece)
        await _end(connection, trial.case, moments)
    except ConnectionError:
        moments.broke = moments.broke or loop.time()
        moments.released = loop.time()
        raise


async def _end(connection: Connection, case: Case, moments: Moments) -> None:
    loop = asyncio.get_running_loop()
    moments.broke = loop.time()
    match case.end:
        case "clean" if case.body != "close":
            return  # the connection stays open for the next request
        case "clean" | "fin" | "mid-chunk":
            connection.fin()
        case "rst":
            await connection.rst()
        case _:
            with suppress(ConnectionError):
                await connection.reader.read(1)
            moments.released = loop.time()
            connection.fin()


async def _converse(url: str, trial: Trial, moments: Moments) -> Seen:
    """Be the client: on a bare socket, because stream readers drop bytes when a reset comes."""
    loop = asyncio.get_running_loop()
    parts = urlsplit(url)
    roll = trial.random("client")
    with socket.socket() as sock:
        sock.settimeout(0)
        if trial.client == "slow":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        await loop.sock_connect(sock, (parts.hostname, parts.port))
        line, _, rest = trial.request.partition(b"\r\n")
        host = f"Host: {parts.netloc}\r\n".encode()
        await loop.sock_sendall(sock, line + b"\r\n" + host + rest)
        async with asyncio.timeout(20):
            seen = await _receive(sock, trial, roll)
        seen.at = loop.time()
        if seen.how == "left":
            moments.left = seen.at
        return seen


async def _receive(sock: socket.socket, trial: Trial, roll: Random) -> Seen:
    loop = asyncio.get_running_loop()
    seen = Seen()
    wanted = roll.choice([0, 1, 200, 400, 2000]) if trial.client == "gone" else None
    if trial.client == "slow":
        await asyncio.sleep(roll.uniform(0.05, 0.2))
    if trial.client == "gone":
        await asyncio.sleep(roll.choice([0.0, 0.005, 0.05]))
    while wanted is None or len(seen.data) < wanted:
        try:
            async with asyncio.timeout(_DULL if trial.client == "gone" else None):
                data = await loop.sock_recv(sock, roll.choice([500, 65536]))
        except TimeoutError:
            return seen
        except ConnectionResetError:
            seen.how = "rst"
            return seen
        if not data:
            seen.how = "fin"
            return seen
        seen.data += data
    return seen
