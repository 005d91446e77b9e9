"""How much later the bytes of a live stream are for going through a recording proxy.

The same streams go directly, through a bare aiohttp pass-through, and through
`llm-proxy record`, in turns.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import median
from typing import Final

import server_processes
import socket_client
from result_table import Row, median_p95

TARGET: Final = 0.3
"""ms: how much later than through the bare pass-through a byte may be."""
_APART: Final = 0.02
"""Seconds between the beginnings of streams that run together."""
_SETTLE: Final = 0.03
"""Seconds between two streams, in which what the one left behind is tidied away."""
_WARM: Final = 5
"""Rounds that do not count: imports, connections, caches."""
_ENOUGH: Final = 12
"""Figures that make a median."""
_ROUTES: Final = ("direct", "bare", "record")


@dataclass(frozen=True, slots=True)
class Load:
    """What is asked for, again and again."""

    name: str
    size: int
    """Bytes of the request's body, about."""
    events: int
    gap: float
    """ms between events, on average."""
    rounds: int
    together: int = 1
    """Streams at the same time."""


@dataclass
class Delays:
    """What was measured on one route, in ms."""

    first: list[float] = field(default_factory=list)
    """From the request's first byte to the answer's."""
    later: list[float] = field(default_factory=list)
    """From the provider's writing of each later event to its arrival."""


def loads(*, quick: bool) -> tuple[Load, ...]:
    """The loads of a run."""
    few, many = (15, 60) if quick else (60, 200)
    short = [Load(f"{kib} KB request", kib * 1024, 6, 4, few) for kib in (1, 30, 200)]
    rounds = 1 if quick else 3
    return (
        *short,
        Load("100 events/s", 4096, many, 10, rounds),
        Load("16 streams of 100 events/s", 4096, many, 10, rounds, together=16),
    )


def rows(folder: Path, *, quick: bool) -> Iterator[Row]:
    """The figures: record beside bare and direct."""
    with ExitStack() as stack:
        provider = stack.enter_context(server_processes.server("provider"))
        url = f"http://127.0.0.1:{provider}"
        ports = {
            "direct": provider,
            "bare": stack.enter_context(server_processes.server("bare", url)),
            "record": stack.enter_context(
                server_processes.llm_proxy(folder, "record", "--upstream", f"default={url}")
            ),
        }
        for load in loads(quick=quick):
            yield from _rows(load, measure(load, ports))


def _rows(load: Load, delays: Mapping[str, Delays]) -> Iterator[Row]:
    for what in ("first", "later"):
        of: dict[str, list[float]] = {route: getattr(it, what) for route, it in delays.items()}
        if len(of["record"]) < _ENOUGH:
            continue
        late = median(of["record"]) - median(of["bare"])
        beside: dict[str, float] = {}
        for route in _ROUTES:
            beside |= median_p95(of[route], route)
        kind = "first byte" if what == "first" else "later reads"
        yield Row("record, later than bare aiohttp", f"{load.name}: {kind}", late, "ms",
                  beside, TARGET)  # fmt: skip


def measure(load: Load, ports: Mapping[str, int]) -> dict[str, Delays]:
    """The delays of a load on each route, the routes in turns."""
    delays = {route: Delays() for route in ports}
    with ExitStack() as stack:
        socks = {
            route: [stack.enter_context(socket_client.connect(port)) for _ in range(load.together)]
            for route, port in ports.items()
        }
        order = list(ports)
        warm = min(_WARM, load.rounds)
        for number in range(-warm, load.rounds):
            order.append(order.pop(0))
            for route in order:
                answers = _ask(load, number, ports[route], socks[route])
                if number >= 0:
                    _note(delays[route], answers)
                time.sleep(_SETTLE)
    return delays


def _ask(
    load: Load, number: int, port: int, socks: list[socket.socket]
) -> list[socket_client.Answer]:
    events = load.events if number >= 0 else min(load.events, _WARM)
    questions = [
        socket_client.request(
            port,
            body(load.size, f"{load.name} {number} {each}"),
            f"x-bench: {events} {load.gap} {each}{abs(number)}",
        )
        for each in range(len(socks))
    ]
    return socket_client.ask_together(socks, questions, _APART)


def _note(delays: Delays, answers: list[socket_client.Answer]) -> None:
    for answer in answers:
        delays.first.append(answer.first)
        delays.later += [(here - written) / 1e6 for written, here in answer.stamped()[1:]]


def body(size: int, nonce: str) -> bytes:
    """A chat of about `size` bytes that no other nonce has."""
    chance = Random(nonce)
    messages = [{"role": "user", "content": nonce}]
    left = size
    while left > 0:
        words = " ".join(str(chance.randrange(10**6)) for _ in range(min(80, left // 8 + 1)))
        messages.append({"role": ("user", "assistant")[len(messages) % 2], "content": words})
        left -= len(words) + 40
    return json.dumps({"model": "bench", "stream": True, "messages": messages}).encode()
