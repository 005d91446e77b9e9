"""How exactly, and how fast, a recording is played."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Final

import server_processes
import socket_client
from record_latency import body
from result_table import Row, median_p95

from llm_proxy.cassette import Cassette, read_cassette

TARGET: Final = 3.0
"""ms: the median offset error that a replay may have."""
_EVENTS: Final = 200


def rows(folder: Path, *, quick: bool) -> Iterator[Row]:
    """The figures, of a cassette that is recorded first."""
    path = _record(folder)
    cassette = read_cassette(str(path), path.read_bytes())
    for speed, pace in ((1.0, "recorded"), (4.0, "4x")):
        yield _accuracy(folder, cassette, speed, pace, 1 if quick else 5)
    yield _throughput(folder, cassette, 400 if quick else 4000)


def _question(port: int) -> bytes:
    return socket_client.request(port, body(2048, "replay"), f"x-bench: {_EVENTS} 10 1")


def _record(folder: Path) -> Path:
    """The file of a recorded stream."""
    with ExitStack() as stack:
        provider = stack.enter_context(server_processes.server("provider"))
        upstream = f"default=http://127.0.0.1:{provider}"
        port = stack.enter_context(
            server_processes.llm_proxy(folder, "record", "--upstream", upstream)
        )
        socket_client.ask(stack.enter_context(socket_client.connect(port)), _question(port))
    [path] = (folder / "cassettes").rglob("*.jsonl")
    return path


def _accuracy(folder: Path, cassette: Cassette, speed: float, pace: str, rounds: int) -> Row:
    due = [read.at_ms / speed for read in cassette.reads]
    errors: dict[str, list[float]] = {"replay": [], "bare": []}
    with (
        server_processes.llm_proxy(folder, "replay", "--pace", pace) as replay,
        server_processes.server("deadlines", cassette.file, str(speed)) as bare,
    ):
        for number in range(-1, rounds):  # the first does not count
            for route, port in (("replay", replay), ("bare", bare)):
                with socket_client.connect(port) as sock:
                    times = socket_client.ask(sock, _question(port)).chunks()
                if number >= 0:
                    late = zip(times, due, strict=True)
                    errors[route] += [abs(at - planned) for at, planned in late]
    beside = _spread("replay", errors["replay"]) | _spread("bare loop", errors["bare"])
    value = median(errors["replay"])
    return Row("replay", f"offset error at {pace}", value, "ms", beside, TARGET)


def _spread(of: str, values: list[float]) -> dict[str, float]:
    return median_p95(values, of) | {f"{of} max": max(values)}


def _throughput(folder: Path, cassette: Cassette, requests: int) -> Row:
    with (
        server_processes.llm_proxy(folder, "replay", "--pace", "instant") as replay,
        server_processes.server("prepared", cassette.file) as bare,
    ):
        found: dict[str, list[float]] = {"replay": [], "bare": []}
        for _ in range(3):
            for route, port in (("replay", replay), ("bare", bare)):
                found[route].append(socket_client.throughput(port, _question(port), requests, 16))
                time.sleep(0.1)
    value, beside = max(found["replay"]), max(found["bare"])
    return Row("replay", f"instant, {_EVENTS} events", value, "req/s",
               {"bare aiohttp, prepared": beside, "ratio": value / beside})  # fmt: skip
