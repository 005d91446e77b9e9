"""However an upstream ends, nothing that arrived is lost, and nobody is told that it was whole."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from in_process_proxy import cassettes, proxy
from llm_proxy.actions import Send
from llm_proxy.exchange import Ending
from llm_proxy.outcome import outcome_of
from llm_proxy.shell.server import response_writer
from llm_proxy.shell.upstream import live as live_upstream
from llm_proxy.shell.upstream import pump
from llm_proxy.shell.upstream.live import LiveUpstream
from llm_proxy.shell.upstream.settings import UpstreamSettings
from raw_http import post
from stored_cassettes import call, chat
from stub_upstream import Connection, chunked, upstream
from thoroughness import enough
from trial_runner import IDLE, Seen, reset, trial_field
from trial_verdicts import dissect, judge
from upstream_endings import CASES, Case, Client, Trial
from waiting import until

TRIALS = enough(6, 20)
MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("client", "finishing"),
    [("fast", False), ("slow", False), ("gone", False), ("gone", True)],
    ids=["client reads", "client is slow", "client leaves", "client leaves, read to the end"],
)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_every_ending_is_told_as_it_was(
    tmp_path: Path, case: Case, client: Client, finishing: bool
) -> None:
    trials = [Trial(case, client, seed, finishing) for seed in range(TRIALS)]
    async with trial_field(tmp_path, case, finishing=finishing) as field:
        await field.run(trials)
    verdicts = judge(tmp_path, field, trials)
    assert [verdict for verdict in verdicts if verdict.lost or verdict.wrong] == []
    assert max(verdict.notice for verdict in verdicts) < 1.0
    if case.end == "stall" and client == "fast":
        assert min(verdict.notice for verdict in verdicts) > -IDLE / 2


def _chat(content: str, *headers: str) -> bytes:
    body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": content}]}
    return post("/v1/chat/completions", json.dumps(body).encode(), *headers)


@asynccontextmanager
async def _client(url: str, request: bytes, *, window: int = 0) -> AsyncIterator[socket.socket]:
    """A client that has asked and reads when it is told to; `window` is what its kernel takes."""
    loop = asyncio.get_running_loop()
    parts = urlsplit(url)
    with socket.socket() as sock:
        sock.settimeout(0)
        if window:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
        await loop.sock_connect(sock, (parts.hostname, parts.port))
        line, _, rest = request.partition(b"\r\n")
        await loop.sock_sendall(sock, line + f"\r\nHost: {parts.netloc}\r\n".encode() + rest)
        yield sock


async def _read_on(sock: socket.socket, pause: float = 0.0, size: int = MIB) -> Seen:
    """Read to the end of the connection."""
    loop = asyncio.get_running_loop()
    data = bytearray()
    try:
        while piece := await loop.sock_recv(sock, size):
            data += piece
            await asyncio.sleep(pause)
    except ConnectionResetError:
        return Seen(bytes(data), "rst")
    return Seen(bytes(data), "fin")


async def _until(condition: asyncio.Event, within: float = 5.0) -> None:
    async with asyncio.timeout(within):
        await condition.wait()


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Each time that a pump paused its upstream, or let it go on."""
    told: list[bool] = []
    pause = pump.ResponsePump._set_paused

    def seen(self: pump.ResponsePump, *, paused: bool) -> None:
        told.append(paused)
        pause(self, paused=paused)

    monkeypatch.setattr(pump.ResponsePump, "_set_paused", seen)
    return told


async def test_an_upstream_waits_for_a_client_that_is_far_behind_and_nothing_is_lost(
    tmp_path: Path, pauses: list[bool]
) -> None:
    piece = bytes(range(256)) * 256
    sent = 0

    async def flood(connection: Connection) -> None:
        nonlocal sent
        await connection.begin()
        for _ in range(40 * MIB // len(piece)):
            await connection.chunk(piece)
            sent += len(piece)
        await reset(connection.writer)

    async with (
        upstream(flood) as live,
        proxy("record", tmp_path, live.url) as recording,
        _client(recording.url, _chat("flood"), window=256 * 1024) as sock,
    ):
        await until(lambda: True in pauses)
        held = -1
        while held != sent:  # what kernels hold goes on for a moment
            held = sent
            await asyncio.sleep(0.1)
        seen = await _read_on(sock)

    assert pump.AHEAD <= held < pump.AHEAD + 16 * MIB  # what kernels hold comes on top
    _, body, how = dissect(seen)
    assert (len(body), how) == (40 * MIB, "rst")
    assert body == piece * (40 * MIB // len(piece))
    [cassette] = cassettes(tmp_path)
    assert (cassette.end.ending, cassette.end.size) == (Ending.RST, 40 * MIB)


async def test_a_client_that_is_behind_when_its_answer_ends_holds_up_nobody_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pump, "AHEAD", 1000)
    pieces = [b"x" * 2000]
    async with upstream(chunked(pieces)) as live:
        async with LiveUpstream(UpstreamSettings({"default": live.url})) as provider:
            async with aclosing(provider.stream(call(chat("slow")), None)) as behind:
                await anext(behind)
                await until(lambda: not provider.active_count)
                async with aclosing(provider.stream(call(chat("next")), None)) as source:
                    async with asyncio.timeout(20):
                        bursts = [burst async for burst in source]
    assert [item for burst in bursts for item in burst if isinstance(item, Send)] == [
        Send(pieces[0])
    ]
    assert live.connections == 1  # it went over the connection of the first one


async def test_an_upstream_that_is_paused_is_let_go_with_its_client(
    tmp_path: Path, pauses: list[bool]
) -> None:
    released = asyncio.Event()

    async def flood(connection: Connection) -> None:
        await connection.begin()
        try:
            while True:
                await connection.chunk(b"x" * MIB)
        finally:
            released.set()

    async with upstream(flood) as live, proxy("record", tmp_path, live.url) as recording:
        async with _client(recording.url, _chat("flood"), window=4096):
            await until(lambda: True in pauses)
        async with asyncio.timeout(20):
            await released.wait()
    [cassette] = cassettes(tmp_path)
    assert cassette.end.ending is Ending.CLIENT_GONE


async def test_a_reset_waits_for_a_client_that_reads_slowly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(response_writer, "_PATIENCE", 1.0)
    body = b"x" * 800_000

    async def break_off(connection: Connection) -> None:
        await connection.begin()
        await connection.chunk(body)
        await reset(connection.writer)

    async with (
        upstream(break_off) as live,
        proxy("record", tmp_path, live.url) as recording,
        _client(recording.url, _chat("slow"), window=4096) as sock,
    ):
        seen = await _read_on(sock, pause=0.008, size=4096)  # one and a half seconds
    assert dissect(seen) == (200, body, "rst")


async def test_a_reset_does_not_wait_for_ever_for_a_client_that_does_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(response_writer, "_PATIENCE", 0.1)

    async def break_off(connection: Connection) -> None:
        await connection.begin()
        await connection.chunk(b"x" * 400_000)
        await reset(connection.writer)

    async with (
        upstream(break_off) as live,
        proxy("record", tmp_path, live.url) as recording,
        _client(recording.url, _chat("deaf"), window=4096) as sock,
    ):
        await until(lambda: bool(cassettes(tmp_path)) and not recording.active_streams())
        seen = await _read_on(sock)
    status, body, how = dissect(seen)
    assert (status, how) == (200, "rst")
    assert len(body) < 400_000


async def test_a_client_that_takes_nothing_is_let_go_and_its_upstream_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(response_writer, "_DEAF", 0.4)
    released = asyncio.Event()

    async def flood(connection: Connection) -> None:
        await connection.begin()
        try:
            while True:
                await connection.chunk(b"x" * MIB)
        finally:
            released.set()

    async with (
        upstream(flood) as live,
        proxy("record", tmp_path, live.url) as recording,
        _client(recording.url, _chat("deaf"), window=4096) as sock,
    ):
        await _until(released)
        await until(lambda: not recording.active_streams())
        [entry] = recording.journal.entries
        seen = await _read_on(sock)
    assert (entry.ending, entry.note) == ("client_gone", "the client took nothing for 0.4 s")
    assert seen.how == "rst"
    [cassette] = cassettes(tmp_path)
    assert cassette.end.ending is Ending.CLIENT_GONE


async def test_a_client_that_takes_little_by_little_is_not_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(response_writer, "_DEAF", 2.0)
    loop = asyncio.get_running_loop()

    async with (
        upstream(chunked([b"x" * 8 * MIB])) as live,
        proxy("record", tmp_path, live.url) as recording,
        _client(recording.url, _chat("slow"), window=16 * 1024) as sock,
    ):
        until_then, taken = loop.time() + 3.0, 0
        while loop.time() < until_then:  # so slowly that our kernel asks us for nothing meanwhile
            taken += len(await loop.sock_recv(sock, 4096))
            await asyncio.sleep(0.02)
        [entry] = recording.journal.entries
        assert (recording.active_streams(), entry.ending) == (1, "")
    assert 0 < taken < MIB


async def test_a_client_that_leaves_at_the_terminator_leaves_a_complete_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_upstream, "_GRACE", 5.0)  # enough for the slowest machine
    gone = asyncio.Event()

    async def script(connection: Connection) -> None:
        await connection.begin()
        await connection.chunk(b"data: [DONE]\n\n")
        await _until(gone)
        await asyncio.sleep(0.005)  # the end of the HTTP body is another packet
        await connection.finish()

    async with upstream(script) as live, proxy("record", tmp_path, live.url) as recording:
        async with _client(recording.url, _chat("sdk")) as sock:
            data = b""
            while b"[DONE]" not in data:
                data += await asyncio.get_running_loop().sock_recv(sock, 65536)
        gone.set()
        await recording.drain(asyncio.Event())
    [cassette] = cassettes(tmp_path)
    assert cassette.end.ending is Ending.CLEAN
    assert outcome_of(cassette).complete


async def test_a_client_without_chunks_is_told_of_a_cut_by_a_reset(tmp_path: Path) -> None:
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
        seen = await _read_on(sock)
    assert dissect(seen) == (200, b"data: 1\n\n", "rst")


async def test_a_stop_of_the_proxy_is_recorded_as_what_it_is(tmp_path: Path) -> None:
    sent = asyncio.Event()

    async def endless(connection: Connection) -> None:
        await connection.begin()
        await connection.chunk(b"data: 1\n\n")
        sent.set()
        await connection.reader.read(1)

    hurry = asyncio.Event()
    hurry.set()
    async with (
        upstream(endless) as live,
        proxy("record", tmp_path, live.url) as recording,
        _client(recording.url, _chat("stop")) as sock,
    ):
        await _until(sent)
        await asyncio.sleep(0.05)
        await recording.drain(hurry)
        seen = await _read_on(sock)
    assert dissect(seen) == (200, b"data: 1\n\n", "fin")
    [cassette] = cassettes(tmp_path)
    assert (cassette.end.ending, cassette.body) == (Ending.KILLED, b"data: 1\n\n")


async def test_a_request_that_waits_when_the_proxy_stops_is_told_so(tmp_path: Path) -> None:
    asked = asyncio.Event()

    async def silent(connection: Connection) -> None:
        asked.set()
        await connection.reader.read(1)

    hurry = asyncio.Event()
    hurry.set()
    async with (
        upstream(silent) as live,
        proxy("record", tmp_path, live.url) as recording,
        _client(recording.url, _chat("stop", "Connection: close")) as sock,
    ):
        await _until(asked)
        await recording.drain(hurry)
        status, body, how = dissect(await _read_on(sock))
    assert (status, how) == (502, "clean")
    assert "stopped" in json.loads(body)["error"]["message"]
    assert cassettes(tmp_path) == []


@pytest.mark.parametrize("early", ["103 Early Hints", "102 Processing", "199 X"])
async def test_a_malformed_chunk_right_behind_two_heads_costs_no_byte(
    tmp_path: Path, early: str
) -> None:
    answer = (
        f"HTTP/1.1 {early}\r\nLink: </a>\r\n\r\n".encode() * 2
        + b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n"
    )

    async def at_once(connection: Connection) -> None:
        await connection.send(answer)
        await connection.reader.read(1)

    async def bit_by_bit(connection: Connection) -> None:
        for at in range(0, len(answer), 7):
            await connection.send(answer[at : at + 7])
            await asyncio.sleep(0)
        await connection.reader.read(1)

    async with (
        upstream(at_once, bit_by_bit) as live,
        proxy("record", tmp_path, live.url) as recording,
    ):
        for _ in range(2):
            async with _client(recording.url, _chat("early", "Connection: close")) as sock:
                assert dissect(await _read_on(sock)) == (200, b"hello", "rst")
    assert {(cassette.end.ending, cassette.body) for cassette in cassettes(tmp_path)} == {
        (Ending.MALFORMED, b"hello")
    }
