"""How accurately, and how fast, `llm-proxy replay` replays a recording."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Final

import server_processes
import socket_client
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
    for speed, pace in ((1.0, "recorded"), (4.0, "4x")):
        yield _accuracy_row(folder, cassette, speed, pace, 1 if is_quick else 5)
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


def _accuracy_row(folder: Path, cassette: Cassette, speed: float, pace: str, rounds: int) -> Row:
    due_times_ms = [read.at_ms / speed for read in cassette.reads]
    plan = [(cassette.response_head_at_ms / speed, "")]
    plan += [(read.at_ms / speed, read.received_bytes.decode("latin-1")) for read in cassette.reads]
    plans_file = folder / "plans.json"
    plans_file.write_text(json.dumps({"/v1/chat/completions": plan}))
    errors_ms: dict[str, list[float]] = {"replay": [], "bare": []}
    with (
        server_processes.run_llm_proxy(folder, "replay", "--pace", pace) as replay_port,
        server_processes.run_reference_server("plans", str(plans_file)) as bare_port,
    ):
        for number in range(-1, rounds):  # the first is a warm-up
            for route, port in (("replay", replay_port), ("bare", bare_port)):
                with socket_client.connect(port) as sock:
                    response = socket_client.send_request(sock, _chat_request(port))
                if number >= 0:
                    times_ms = zip(response.chunk_times_ms(), due_times_ms, strict=True)
                    errors_ms[route] += [abs(actual - due) for actual, due in times_ms]
    references = _summary("replay", errors_ms["replay"]) | _summary("bare loop", errors_ms["bare"])
    value = median(errors_ms["replay"])
    return Row("replay", f"offset error at {pace}", value, "ms", references, TARGET_MS)


def _summary(label: str, values: list[float]) -> dict[str, float]:
    return median_p95(values, label) | {f"{label} max": max(values)}


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
