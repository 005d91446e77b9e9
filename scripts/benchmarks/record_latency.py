"""The latency that `llm-proxy record` adds to a live stream.

The same streams are requested directly, through a bare aiohttp pass-through, and through
`llm-proxy record`, in turns.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import median
from typing import Final

import server_processes
import socket_client
from result_table import Row, median_p95

TARGET_MS: Final = 0.3
"""The accepted additional latency of a byte, compared with the bare pass-through."""
_START_INTERVAL_S: Final = 0.02
"""Between the starts of concurrent streams."""
_PAUSE_S: Final = 0.03
"""Between two streams, for the clean-up after the first."""
_WARM_UP_ROUNDS: Final = 5
"""Rounds that do not count: imports, connections, caches."""
_MIN_SAMPLES: Final = 12
"""The number of values that is enough for a median."""
_DELAY_NAMES: Final = ("first byte", "later reads")


@dataclass(frozen=True, slots=True)
class Load:
    """A kind of request that is sent repeatedly."""

    name: str
    body_size: int
    """The approximate size of the request's body, in bytes."""
    event_count: int
    event_gap_ms: float
    """The average time between events."""
    rounds: int
    concurrency: int = 1
    """The number of concurrent streams."""


Delays = dict[str, list[float]]
"""The delays measured on one route, in ms.

`first byte`: from the first byte of the request to the first byte of the response.
`later reads`: from the provider's write of each later event to its arrival.
"""


def benchmark_loads(*, is_quick: bool) -> tuple[Load, ...]:
    """The loads of a run."""
    short_rounds, event_count = (15, 60) if is_quick else (60, 200)
    short = [Load(f"{kib} KB request", kib * 1024, 6, 4, short_rounds) for kib in (1, 30, 200)]
    rounds = 1 if is_quick else 3
    return (
        *short,
        Load("100 events/s", 4096, event_count, 10, rounds),
        Load("16 streams of 100 events/s", 4096, event_count, 10, rounds, concurrency=16),
    )


def measure(folder: Path, *, is_quick: bool) -> Iterator[Row]:
    """Measure, and yield the rows."""
    with ExitStack() as stack:
        provider_port = stack.enter_context(server_processes.run_reference_server("provider"))
        url = f"http://127.0.0.1:{provider_port}"
        ports = {
            "direct": provider_port,
            "bare": stack.enter_context(server_processes.run_reference_server("bare", url)),
            "record": stack.enter_context(
                server_processes.run_llm_proxy(folder, "record", "--upstream", f"default={url}")
            ),
        }
        for load in benchmark_loads(is_quick=is_quick):
            yield from _rows(load, measure_delays(load, ports))


def _rows(load: Load, delays: Mapping[str, Delays]) -> Iterator[Row]:
    for label in _DELAY_NAMES:
        by_route = {route: route_delays[label] for route, route_delays in delays.items()}
        if len(by_route["record"]) < _MIN_SAMPLES:
            continue
        added_ms = median(by_route["record"]) - median(by_route["bare"])
        references: dict[str, float] = {}
        for route, values_ms in by_route.items():
            references |= median_p95(values_ms, route)
        yield Row("record, later than bare aiohttp", f"{load.name}: {label}", added_ms, "ms",
                  references, TARGET_MS)  # fmt: skip


def measure_delays(load: Load, ports: Mapping[str, int]) -> dict[str, Delays]:
    """The delays of a load on each route; the routes take turns."""
    delays: dict[str, Delays] = {route: {name: [] for name in _DELAY_NAMES} for route in ports}
    with ExitStack() as stack:
        socks = {
            route: [
                stack.enter_context(socket_client.connect(port)) for _ in range(load.concurrency)
            ]
            for route, port in ports.items()
        }
        order = list(ports)
        warm_up_rounds = min(_WARM_UP_ROUNDS, load.rounds)
        for number in range(-warm_up_rounds, load.rounds):
            order.append(order.pop(0))
            for route in order:
                for response in _send_requests(load, number, ports[route], socks[route]):
                    if number >= 0:
                        delays[route]["first byte"].append(response.first_byte_ms)
                        delays[route]["later reads"] += [
                            (arrived - written) / 1e6
                            for written, arrived in response.event_times_ns()[1:]
                        ]
                time.sleep(_PAUSE_S)
    return delays


def _send_requests(
    load: Load, number: int, port: int, socks: list[socket.socket]
) -> list[socket_client.TimedResponse]:
    event_count = load.event_count if number >= 0 else min(load.event_count, _WARM_UP_ROUNDS)
    requests = [
        socket_client.encode_chat_request(
            port,
            chat_body(load.body_size, f"{load.name} {number} {index}"),
            f"x-bench: {event_count} {load.event_gap_ms} {index}{abs(number)}",
        )
        for index in range(len(socks))
    ]
    return socket_client.send_requests(socks, requests, _START_INTERVAL_S)


def chat_body(size: int, nonce: str) -> bytes:
    """The body of a chat request, of about `size` bytes, which differs for each nonce."""
    rng = Random(nonce)
    messages = [{"role": "user", "content": nonce}]
    remaining = size
    while remaining > 0:
        word_count = min(80, remaining // 8 + 1)
        text = " ".join(str(rng.randrange(10**6)) for _ in range(word_count))
        messages.append({"role": ("user", "assistant")[len(messages) % 2], "content": text})
        remaining -= len(text) + 40
    return json.dumps({"model": "bench", "stream": True, "messages": messages}).encode()
