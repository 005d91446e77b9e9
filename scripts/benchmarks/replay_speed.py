"""How accurately, and how fast, `llm-proxy replay` replays a recording."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import server_processes
import socket_client
from pace_accuracy import RECORDED_PACES, compare_delays, make_plan
from record_latency import chat_body
from result_table import Row, median_p95

from llm_proxy.cassette import Cassette, parse_cassette

TARGET_MS: Final = 3.0
"""The accepted median of the offset errors of a replay."""
_EVENT_COUNT: Final = 200


def measure(folder: Path, *, is_quick: bool) -> Iterator[Row]:
    """Record a cassette, measure its replay, and yield the rows."""
    path = _record(folder)
    cassette = parse_cassette(str(path), path.read_bytes())
    for pace in RECORDED_PACES:
        yield _accuracy_row(folder, cassette, pace, 1 if is_quick else 5)
    yield _throughput_row(folder, cassette, 400 if is_quick else 4000)


def _chat_request(port: int) -> bytes:
    body = chat_body(2048, "replay")
    return socket_client.encode_chat_request(port, body, f"x-bench: {_EVENT_COUNT} 10 1")


def _record(folder: Path) -> Path:
    """Record a stream; returns its file."""
    with (
        server_processes.run_recorder(folder) as port,
        socket_client.connect(port) as sock,
    ):
        socket_client.send_request(sock, _chat_request(port))
    [path] = (folder / "cassettes").rglob("*.jsonl")
    return path


def _accuracy_row(folder: Path, cassette: Cassette, pace: str, rounds: int) -> Row:
    delays = compare_delays(folder, [[make_plan(cassette, pace, 2)]] * rounds, pace)
    references: dict[str, float] = {}
    for label, responses in (("replay", delays.replay_ms), ("bare loop", delays.bare_ms)):
        errors_ms = [abs(delay_ms) for response in responses for delay_ms in response]
        references |= median_p95(errors_ms, label) | {f"{label} max": max(errors_ms)}
    value = references["replay median"]
    return Row("replay", f"offset error at {pace}", value, "ms", references, TARGET_MS)


def _throughput_row(folder: Path, cassette: Cassette, request_count: int) -> Row:
    body_file = folder / "body"
    body_file.write_bytes(cassette.response_body)
    with server_processes.run_llm_proxy(folder, "replay", "--pace", "instant") as port:
        name = f"instant, {_EVENT_COUNT} events"
        return compare_rates("replay", name, port, body_file, _chat_request, request_count)


def compare_rates(
    group: str,
    name: str,
    port: int,
    body_file: Path,
    encode_request: Callable[[int], bytes],
    count: int,
) -> Row:
    """The responses per second of llm-proxy on `port`, and of bare aiohttp with the same body."""
    rates: list[float] = []
    bare_rates: list[float] = []
    with server_processes.run_reference_server("body", str(body_file)) as bare_port:
        for _ in range(3):
            for server_port, server_rates in ((port, rates), (bare_port, bare_rates)):
                request = encode_request(server_port)
                server_rates.append(
                    socket_client.requests_per_second(server_port, request, count, 16)
                )
                time.sleep(0.1)
    value, bare_rate = max(rates), max(bare_rates)
    return Row(group, name, value, "req/s",
               {"bare aiohttp, prepared": bare_rate, "ratio": value / bare_rate})  # fmt: skip
