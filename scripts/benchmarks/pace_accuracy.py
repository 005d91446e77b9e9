"""How accurate paces are, compared with a bare loop of absolute deadlines in the same run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import copytree
from socket import socket
from statistics import fmean, median
from typing import Final

import cassette_files
import server_processes
import socket_client
from result_table import Row, median_p95

from llm_proxy.actions import Begin, Send, Wait
from llm_proxy.cassette import Cassette, parse_cassette
from llm_proxy.cassette.model import DEFAULT_SESSION
from llm_proxy.exchange import Ending, Read
from llm_proxy.pacing import parse_pace
from llm_proxy.pacing.cassette_player import replay_actions
from llm_proxy.pacing.timing import make_seeded_draw
from llm_proxy.routing import PACE_HEADER

SHIPPED_LIBRARY: Final = Path(__file__).parents[2] / "cassettes"

DELAY_TARGET_MS: Final = 0.3
"""The accepted mean delay of a chunk, compared with the bare loop."""
DRIFT_TARGET_MS: Final = 5.0
"""The accepted growth of the delay between the beginning and the end of a long stream."""
SPEED_TARGET_PERCENT: Final = 1.0
"""The accepted difference between the duration at 4x and a quarter of the duration."""

_PACES: Final = ("profile:claude-sonnet-4-6", "50tps", "ttft=100..300ms,gap=5..30ms")
RECORDED_PACES: Final = ("recorded", "4x")
"""Paces that keep the recorded times, or divide them."""
_LONG_EVENT_COUNT: Final = 10_000
_DRIFT_EVENTS: Final = 100
"""Events at either end of a long stream, whose medians are compared."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A request, and when each chunk of its response is due."""

    cassette: Cassette
    head_due_ms: float
    chunks_due_ms: tuple[float, ...]
    chunks: tuple[bytes, ...]

    def encode_request(self, port: int, path: str = "", *headers: str) -> bytes:
        """The bytes of the request, with its own path or another, and with additional headers."""
        stored = self.cassette.request
        target = path or stored.request_target
        lines = [f"{stored.method} {target} HTTP/1.1", f"Host: 127.0.0.1:{port}"]
        lines += [*(f"{name}: {value}" for name, value in stored.headers), *headers]
        lines += [f"Content-Length: {len(stored.body)}", "", ""]
        return "\r\n".join(lines).encode("latin-1") + stored.body

    def as_json(self) -> list[tuple[float, str]]:
        """The plan for the bare loop."""
        chunks = zip(self.chunks_due_ms, self.chunks, strict=True)
        return [(self.head_due_ms, ""), *((due, data.decode("latin-1")) for due, data in chunks)]


@dataclass(frozen=True, slots=True)
class Delays:
    """The delays of the chunks of each response, in ms."""

    replay_ms: list[list[float]]
    bare_ms: list[list[float]]


def measure(folder: Path, library: Path, *, is_quick: bool) -> Iterator[Row]:
    """Measure with the streams of a library, and yield the rows."""
    copytree(library, folder / "cassettes")
    count = 4 if is_quick else 12
    all_streams = list(_load_streams(folder / "cassettes"))
    streams = all_streams[:: max(1, len(all_streams) // count)][:count]
    for pace in _PACES:
        yield _delay_row(folder, streams, pace, 1 if is_quick else 3)
    event_count = 1000 if is_quick else _LONG_EVENT_COUNT
    long_stream = _write_long_stream(folder / "long" / "cassettes", event_count)
    yield _drift_row(folder / "long", long_stream)
    yield _speed_row(folder / "long", long_stream)


def _load_streams(library: Path) -> Iterator[Cassette]:
    """The streams with more than 20 messages; only the first take of each request."""
    for path in sorted(library.rglob("*-1.jsonl")):
        cassette = parse_cassette(str(path), path.read_bytes())
        is_stream = cassette.codec_name != "whole" and cassette.response_head.framing == "chunked"
        if (
            is_stream
            and len(cassette.framed_messages) > 20
            and cassette.response_end.ending is Ending.CLEAN
        ):
            yield cassette


def make_plan(cassette: Cassette, pace: str, ordinal: int) -> Plan:
    """The plan of a replay, computed by llm-proxy's own code."""
    rolls = make_seeded_draw(0, DEFAULT_SESSION, cassette.meta.key, ordinal)
    head_due_ms = due_ms = 0.0
    chunks_due_ms: list[float] = []
    chunks: list[bytes] = []
    for action in replay_actions(cassette, parse_pace(pace), rolls):
        match action:
            case Wait(until_ms):
                due_ms = until_ms
            case Begin():
                head_due_ms = due_ms
            case Send(data):
                chunks_due_ms.append(due_ms)
                chunks.append(data)
            case _:
                pass
    return Plan(cassette, head_due_ms, tuple(chunks_due_ms), tuple(chunks))


def _measure_delays(ports: Sequence[int], plans: Sequence[Plan]) -> list[list[list[float]]]:
    """The delays of the chunks in ms, by server and response.

    All requests are sent to all servers at the same time, responses 10 ms apart, so that other
    load on the machine affects all of them.  The first server is llm-proxy; others know plans by
    their numbers.
    """
    sent: list[tuple[int, Plan]] = []
    socks: list[socket] = []
    requests: list[bytes] = []
    for number, plan in enumerate(plans):
        servers = list(enumerate(ports))
        for server, port in servers if number % 2 else reversed(servers):
            sent.append((server, plan))
            socks.append(socket_client.connect(port))
            requests.append(plan.encode_request(port, f"/{number}" if server else ""))
    responses = socket_client.send_requests(socks, requests, interval_s=0.01)
    for sock in socks:
        sock.close()
    delays_ms: list[list[list[float]]] = [[] for _ in ports]
    for (server, plan), response in zip(sent, responses, strict=True):
        times_ms = zip(response.chunk_times_ms(), plan.chunks_due_ms, strict=True)
        delays_ms[server].append([actual - due for actual, due in times_ms])
    return delays_ms


def _warm_up(port: int, plans: Sequence[Plan], pace: str) -> None:
    """Make a replay read the recordings, which it does at the first request for each."""
    fast_pace = "instant" if pace in RECORDED_PACES else f"{pace},max-gap=1ms"
    for plan in plans:
        with socket_client.connect(port) as sock:
            request = plan.encode_request(port, "", f"{PACE_HEADER}: {fast_pace}")
            socket_client.send_request(sock, request)


def compare_delays(folder: Path, rounds: Sequence[Sequence[Plan]], pace: str) -> Delays:
    """The delays of llm-proxy and of the bare loop, measured at the same time."""
    delays = Delays([], [])
    with server_processes.run_llm_proxy(folder, "replay", "--pace", pace) as replay_port:
        _warm_up(replay_port, rounds[0], pace)
        for plans in rounds:
            path = folder / "plans.json"
            plans_by_path = {f"/{number}": plan.as_json() for number, plan in enumerate(plans)}
            path.write_text(json.dumps(plans_by_path))
            with server_processes.run_reference_server("plans", str(path)) as bare_port:
                replay_ms, bare_ms = _measure_delays((replay_port, bare_port), plans)
            delays.replay_ms.extend(replay_ms)
            delays.bare_ms.extend(bare_ms)
    return delays


def _delay_row(folder: Path, streams: Sequence[Cassette], pace: str, rounds: int) -> Row:
    """The delay of the chunks of a response, compared with the same response of the bare loop.

    The value is the median of all responses, because other load on the machine delays some of
    them, at random, from either server.
    """
    plans = [
        [make_plan(stream, pace, ordinal) for stream in streams] for ordinal in range(2, rounds + 2)
    ]
    delays = compare_delays(folder, plans, pace)
    replay_ms, bare_ms = (
        [fmean(map(abs, chunk_delays)) for chunk_delays in responses]
        for responses in (delays.replay_ms, delays.bare_ms)
    )
    added_ms = median(replay - bare for replay, bare in zip(replay_ms, bare_ms, strict=True))
    references = {"replay mean": fmean(replay_ms), "bare loop mean": fmean(bare_ms)}
    references |= median_p95(replay_ms, "replay") | median_p95(bare_ms, "bare loop")
    name = f"above the bare loop at {pace}"
    return Row("pace", name, added_ms, "ms", references, DELAY_TARGET_MS)


def _drift_row(folder: Path, long_stream: Cassette) -> Row:
    """How much later the last events of a long stream are than its first."""
    delays = compare_delays(folder, [[make_plan(long_stream, "recorded", 2)]], "recorded")
    replay_ms, bare_ms = (
        abs(median(chunk_delays[-_DRIFT_EVENTS:]) - median(chunk_delays[:_DRIFT_EVENTS]))
        for [chunk_delays] in (delays.replay_ms, delays.bare_ms)
    )
    name = f"drift over {len(long_stream.framed_messages) - 1} events"
    return Row("pace", name, replay_ms, "ms", {"bare loop": bare_ms}, DRIFT_TARGET_MS)


def _speed_row(folder: Path, long_stream: Cassette) -> Row:
    """The difference between the duration at 4x and a quarter of the duration."""
    durations_ms: dict[str, float] = {}
    for pace in RECORDED_PACES:
        plan = make_plan(long_stream, pace, 1)
        with server_processes.run_llm_proxy(folder, "replay", "--pace", pace) as port:
            _warm_up(port, [plan], pace)
            [[delays_ms]] = _measure_delays((port,), [plan])
        durations_ms[pace] = delays_ms[-1] + plan.chunks_due_ms[-1]
    ratio = durations_ms["recorded"] / durations_ms["4x"]
    difference = abs(ratio / 4 - 1) * 100
    name = "4x is off a quarter of the time by"
    return Row("pace", name, difference, "%", {"ratio": ratio}, SPEED_TARGET_PERCENT)


def _write_long_stream(library: Path, event_count: int) -> Cassette:
    """Write a recording of so many events, a millisecond apart."""
    body = b'{"model":"bench","stream":true,"messages":[{"role":"user","content":"count"}]}'
    reads: list[Read] = []
    for number in range(1, event_count + 1):
        event = json.dumps({"choices": [{"index": 0, "delta": {"content": f"{number} "}}]})
        reads.append(Read(float(number), f"data: {event}\n\n".encode()))
    reads.append(Read(float(event_count), b"data: [DONE]\n\n"))
    path = cassette_files.write_cassette(library, body, reads)
    return parse_cassette(str(path), path.read_bytes())
