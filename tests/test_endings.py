"""However an upstream ends, no byte is lost and no partial response looks complete."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from in_process_proxy import load_cassettes, proxy
from llm_proxy.actions import Send
from llm_proxy.cassette_views import cassette_outcome
from llm_proxy.exchange import Ending
from llm_proxy.shell.server import response_writer
from llm_proxy.shell.upstream import live as live_upstream
from llm_proxy.shell.upstream import pump
from llm_proxy.shell.upstream.live import LiveUpstream, UpstreamSettings
from raw_http import build_http_request
from stored_cassettes import raw_chat_request, route_raw_request
from stub_upstream import Connection, chunked, upstream
from thoroughness import quick_or_thorough
from trial_runner import STALL_TIMEOUT_S, ClientView, reset, trial_environment
from trial_verdicts import judge_trials, parse_response
from upstream_endings import CASES, Client, Trial
from waiting import wait_until

TRIALS = quick_or_thorough(1, 20)
CLIENTS: tuple[Client, ...] = ("fast", "slow", "gone")
MIB = 1024 * 1024


@pytest.mark.parametrize(
    "finishing", [False, True], ids=["cut as clients leave", "read to the end"]
)
@pytest.mark.parametrize("stalls", [False, True], ids=["ends", "stalls"])
async def test_every_ending_is_passed_on_and_recorded(
    tmp_path: Path, stalls: bool, finishing: bool
) -> None:
    trials = [
        Trial(case, client, seed, finishing)
        for case in CASES
        if case.stalls is stalls
        for client in (CLIENTS if not finishing else ("gone",))
        for seed in range(TRIALS)
    ]
    async with trial_environment(tmp_path, stalls=stalls, finishing=finishing) as field:
        await field.run(trials)
    verdicts = judge_trials(tmp_path, field, trials)
    assert [verdict for verdict in verdicts if verdict.lost_bytes or verdict.problems] == []
    assert [verdict for verdict in verdicts if verdict.notice_s >= 1.0] == []
    early = [verdict for verdict in verdicts if verdict.notice_s <= -STALL_TIMEOUT_S / 2]
    assert [verdict for verdict in early if stalls and verdict.trial.client == "fast"] == []


def _chat(content: str, *headers: str) -> bytes:
    body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": content}]}
    return build_http_request("/v1/chat/completions", json.dumps(body).encode(), *headers)


@asynccontextmanager
async def _client(url: str, request: bytes, *, window: int = 0) -> AsyncIterator[socket.socket]:
    """The socket of a client that has sent its request; `window` is its receive buffer in bytes."""
    loop = asyncio.get_running_loop()
    parts = urlsplit(url)
    with socket.socket() as sock:
        sock.settimeout(0)
        if window:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
        await loop.sock_connect(sock, (parts.hostname, parts.port))
        request_line, _, request_rest = request.partition(b"\r\n")
        await loop.sock_sendall(
            sock, request_line + f"\r\nHost: {parts.netloc}\r\n".encode() + request_rest
        )
        yield sock


async def _read_to_end(
    sock: socket.socket, pause_s: float = 0.0, read_bytes: int = MIB
) -> ClientView:
    """Read to the end of the connection."""
    loop = asyncio.get_running_loop()
    received = bytearray()
    try:
        while chunk := await loop.sock_recv(sock, read_bytes):
            received += chunk
            await asyncio.sleep(pause_s)
    except ConnectionResetError:
        return ClientView(bytes(received), "rst")
    return ClientView(bytes(received), "fin")


async def _wait_for_event(event: asyncio.Event, timeout_s: float = 5.0) -> None:
    async with asyncio.timeout(timeout_s):
        await event.wait()


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Each call that paused (True) or resumed (False) an upstream; it is paused soon."""
    monkeypatch.setattr(pump, "MAX_QUEUED_BYTES", MIB)
    states: list[bool] = []
    set_paused = pump.ResponsePump._set_paused

    def record_pause(self: pump.ResponsePump, *, paused: bool) -> None:
        states.append(paused)
        set_paused(self, paused=paused)

    monkeypatch.setattr(pump.ResponsePump, "_set_paused", record_pause)
    return states


async def test_an_upstream_waits_for_a_client_that_is_far_behind_and_nothing_is_lost(
    tmp_path: Path, pauses: list[bool]
) -> None:
    chunk = bytes(range(256)) * 256
    sent_bytes = 0

    async def flood(connection: Connection) -> None:
        nonlocal sent_bytes
        await connection.begin()
        for _ in range(20 * MIB // len(chunk)):
            await connection.chunk(chunk)
            sent_bytes += len(chunk)
        await reset(connection.writer)

    async with (
        upstream(flood) as live,
        proxy("record", tmp_path, live.url) as recording,
        _client(recording.url, _chat("flood"), window=256 * 1024) as sock,
    ):
        await wait_until(lambda: True in pauses)
        stable_count = -1
        while stable_count != sent_bytes:  # kernel buffers fill up for a moment
            stable_count = sent_bytes
            await asyncio.sleep(0.1)
        seen = await _read_to_end(sock)

    assert MIB <= stable_count < 17 * MIB  # kernel buffers come on top
    _, body, ending = parse_response(seen)
    assert (len(body), ending) == (20 * MIB, "rst")
    assert body == chunk * (20 * MIB // len(chunk))
    [cassette] = load_cassettes(tmp_path)
    assert (cassette.response_end.ending, cassette.response_end.size_bytes) == (
        Ending.RST,
        20 * MIB,
    )


async def test_a_client_that_is_behind_when_its_answer_ends_holds_up_nobody_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pump, "MAX_QUEUED_BYTES", 1000)
    pieces = [b"x" * 2000]
    async with upstream(chunked(pieces)) as live:
        async with LiveUpstream(UpstreamSettings({"default": live.url})) as provider:
            async with aclosing(
                provider.stream(route_raw_request(raw_chat_request("slow")), None)
            ) as slow_stream:
                await anext(slow_stream)
                await wait_until(lambda: not provider.active_response_count)
                async with aclosing(
                    provider.stream(route_raw_request(raw_chat_request("next")), None)
                ) as next_stream:
                    async with asyncio.timeout(20):
                        bursts = [burst async for burst in next_stream]
    assert [item for burst in bursts for item in burst if isinstance(item, Send)] == [
        Send(pieces[0])
    ]
    assert live.connections == 1  # it reused the first connection


async def test_a_paused_upstream_is_closed_with_its_client(
    tmp_path: Path, pauses: list[bool]
) -> None:
    upstream_closed = asyncio.Event()

    async def flood(connection: Connection) -> None:
        await connection.begin()
        try:
            while True:
                await connection.chunk(b"x" * MIB)
        finally:
            upstream_closed.set()

    async with upstream(flood) as live, proxy("record", tmp_path, live.url) as recording:
        async with _client(recording.url, _chat("flood"), window=4096):
            await wait_until(lambda: True in pauses)
        async with asyncio.timeout(20):
            await upstream_closed.wait()
    [cassette] = load_cassettes(tmp_path)
    assert cassette.response_end.ending is Ending.CLIENT_GONE


async def test_a_reset_waits_for_a_client_that_reads_slowly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(response_writer, "_DELIVERY_TIMEOUT_S", 0.4)
    body = b"x" * 400_000

    async def send_and_reset(connection: Connection) -> None:
        await connection.begin()
        await connection.chunk(body)
        await reset(connection.writer)

    async with (
        upstream(send_and_reset) as live,
        proxy("record", tmp_path, live.url) as recording,
        _client(recording.url, _chat("slow"), window=4096) as sock,
    ):
        seen = await _read_to_end(sock, pause_s=0.008, read_bytes=4096)  # 0.8 s
    assert parse_response(seen) == (200, body, "rst")


async def test_a_reset_does_not_wait_for_ever_for_a_client_that_does_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(response_writer, "_DELIVERY_TIMEOUT_S", 0.1)

    async def send_and_reset(connection: Connection) -> None:
        await connection.begin()
        await connection.chunk(b"x" * 400_000)
        await reset(connection.writer)

    async with (
        upstream(send_and_reset) as live,
        proxy("record", tmp_path, live.url) as recording,
        _client(recording.url, _chat("deaf"), window=4096) as sock,
    ):
        await wait_until(
            lambda: bool(load_cassettes(tmp_path)) and not recording.active_stream_count()
        )
        seen = await _read_to_end(sock)
    status, body, ending = parse_response(seen)
    assert (status, ending) == (200, "rst")
    assert len(body) < 400_000


async def test_a_client_that_reads_nothing_is_closed_and_its_upstream_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(response_writer, "_DRAIN_TIMEOUT_S", 0.4)
    upstream_closed = asyncio.Event()

    async def flood(connection: Connection) -> None:
        await connection.begin()
        try:
            while True:
                await connection.chunk(b"x" * MIB)
        finally:
            upstream_closed.set()

    async with (
        upstream(flood) as live,
        proxy("record", tmp_path, live.url) as recording,
        _client(recording.url, _chat("deaf"), window=4096) as sock,
    ):
        await _wait_for_event(upstream_closed)
        await wait_until(lambda: not recording.active_stream_count())
        [entry] = recording.journal.entries
        seen = await _read_to_end(sock)
    assert (entry.ending, entry.note) == ("client_gone", "the client read no data for 0.4 s")
    assert seen.ending == "rst"
    [cassette] = load_cassettes(tmp_path)
    assert cassette.response_end.ending is Ending.CLIENT_GONE


async def test_a_client_that_reads_slowly_is_not_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(response_writer, "_DRAIN_TIMEOUT_S", 0.5)
    loop = asyncio.get_running_loop()

    async with (
        upstream(chunked([b"x" * 8 * MIB])) as live,
        proxy("record", tmp_path, live.url) as recording,
        _client(recording.url, _chat("slow"), window=16 * 1024) as sock,
    ):
        deadline, taken_bytes = loop.time() + 0.75, 0
        while loop.time() < deadline:  # so slowly that our kernel does not ask for more
            taken_bytes += len(await loop.sock_recv(sock, 16 * 1024))
            await asyncio.sleep(0.02)
        [entry] = recording.journal.entries
        assert (recording.active_stream_count(), entry.ending) == (1, "")
    assert 0 < taken_bytes < MIB


async def test_a_client_that_leaves_at_the_terminator_leaves_a_complete_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        live_upstream, "_CLIENT_GONE_GRACE_S", 5.0
    )  # enough for the slowest machine
    client_left = asyncio.Event()

    async def script(connection: Connection) -> None:
        await connection.begin()
        await connection.chunk(b"data: [DONE]\n\n")
        await _wait_for_event(client_left)
        await asyncio.sleep(0.005)  # the end of the HTTP body is another packet
        await connection.finish()

    async with upstream(script) as live, proxy("record", tmp_path, live.url) as recording:
        async with _client(recording.url, _chat("sdk")) as sock:
            data = b""
            while b"[DONE]" not in data:
                data += await asyncio.get_running_loop().sock_recv(sock, 65536)
        client_left.set()
        await recording.drain(asyncio.Event())
    [cassette] = load_cassettes(tmp_path)
    assert cassette.response_end.ending is Ending.CLEAN
    assert cassette_outcome(cassette).is_complete


async def test_a_client_without_chunked_encoding_gets_a_reset_for_a_cut_body(
    tmp_path: Path,
) -> None:
    async def cut(connection: Connection) -> None:
        await connection.begin()
        await connection.chunk(b"data: 1\n\n")
        connection.fin()

    request = _chat("old").replace(b"HTTP/1.1", b"HTTP/1.0")
    async with (
        upstream(cut) as live,
        proxy("record", tmp_path, live.url) as recording,
        _client(recording.url, request) as sock,
    ):
        seen = await _read_to_end(sock)
    assert parse_response(seen) == (200, b"data: 1\n\n", "rst")


async def test_a_stop_of_the_proxy_is_recorded_as_what_it_is(tmp_path: Path) -> None:
    chunk_sent = asyncio.Event()

    async def endless(connection: Connection) -> None:
        await connection.begin()
        await connection.chunk(b"data: 1\n\n")
        chunk_sent.set()
        await connection.reader.read(1)

    stop_now = asyncio.Event()
    stop_now.set()
    async with (
        upstream(endless) as live,
        proxy("record", tmp_path, live.url) as recording,
        _client(recording.url, _chat("stop")) as sock,
    ):
        await _wait_for_event(chunk_sent)
        await asyncio.sleep(0.05)
        await recording.drain(stop_now)
        seen = await _read_to_end(sock)
    assert parse_response(seen) == (200, b"data: 1\n\n", "fin")
    [cassette] = load_cassettes(tmp_path)
    assert (cassette.response_end.ending, cassette.response_body) == (Ending.KILLED, b"data: 1\n\n")


async def test_a_request_that_waits_when_the_proxy_stops_gets_an_error(tmp_path: Path) -> None:
    request_received = asyncio.Event()

    async def never_respond(connection: Connection) -> None:
        request_received.set()
        await connection.reader.read(1)

    stop_now = asyncio.Event()
    stop_now.set()
    async with (
        upstream(never_respond) as live,
        proxy("record", tmp_path, live.url) as recording,
        _client(recording.url, _chat("stop", "Connection: close")) as sock,
    ):
        await _wait_for_event(request_received)
        await recording.drain(stop_now)
        status, body, ending = parse_response(await _read_to_end(sock))
    assert (status, ending) == (502, "clean")
    assert "stopped" in json.loads(body)["error"]["message"]
    assert load_cassettes(tmp_path) == []


@pytest.mark.parametrize("interim_status", ["103 Early Hints", "102 Processing", "199 X"])
async def test_a_malformed_chunk_right_behind_two_heads_costs_no_byte(
    tmp_path: Path, interim_status: str
) -> None:
    raw_response = (
        f"HTTP/1.1 {interim_status}\r\nLink: </a>\r\n\r\n".encode() * 2
        + b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n"
    )

    async def send_at_once(connection: Connection) -> None:
        await connection.send(raw_response)
        await connection.reader.read(1)

    async def send_in_pieces(connection: Connection) -> None:
        for start in range(0, len(raw_response), 7):
            await connection.send(raw_response[start : start + 7])
            await asyncio.sleep(0)
        await connection.reader.read(1)

    async with (
        upstream(send_at_once, send_in_pieces) as live,
        proxy("record", tmp_path, live.url) as recording,
    ):
        for _ in range(2):
            async with _client(recording.url, _chat("early", "Connection: close")) as sock:
                assert parse_response(await _read_to_end(sock)) == (200, b"hello", "rst")
    assert {
        (cassette.response_end.ending, cassette.response_body)
        for cassette in load_cassettes(tmp_path)
    } == {(Ending.MALFORMED, b"hello")}
